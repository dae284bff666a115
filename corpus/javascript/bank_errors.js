class InsufficientFundsError extends Error {
  constructor(account, amount) {
    super(`${account.owner} lacks ${(amount - account.balance).toFixed(2)}`, { cause: { account: account.owner, amount } });
    this.name = this.constructor.name;
  }
}

class Account {
  #balance = 0;
  static #all = [];
  history = [];
  constructor(owner, balance = 0) { this.owner = owner; this.#balance = balance; Account.#all.push(this); }
  get balance() { return this.#balance; }
  deposit(amount) {
    if (!(amount > 0)) throw new RangeError(`amount must be positive, not ${amount}`);
    this.#balance += amount;
    this.history.push({ type: 'deposit', amount });
    return this;
  }
  withdraw(amount) {
    if (amount > this.#balance) throw new InsufficientFundsError(this, amount);
    this.#balance -= amount;
    this.history.push({ type: 'withdraw', amount });
    return this;
  }
  static total() { return Account.#all.reduce((s, a) => s + a.#balance, 0); }
  static isAccount(x) { return #balance in x; }
}

const transfer = (from, to, amount) => { from.withdraw(amount); to.deposit(amount); };
const mei = new Account('Mei', 500), otto = new Account('Otto', 50);
transfer(mei, otto, 120.5);
for (const action of [() => transfer(otto, mei, 1000), () => mei.deposit(-5), () => mei.deposit(NaN), () => JSON.parse('{'), () => mei.close()]) {
  try {
    action();
    console.log('fine');
  } catch (error) {
    if (error instanceof InsufficientFundsError) console.log(`${error.name}: ${error.message}`, error.cause);
    else if (error instanceof RangeError) console.log('RangeError:', error.message);
    else console.log(error.name, error instanceof Error);
  } finally {
    console.log('balance', mei.balance);
  }
}
console.log(mei, Account.total(), Account.isAccount(mei), Account.isAccount({}));
const errors = new AggregateError([new Error('a'), new TypeError('b')], 'several');
console.log(errors.message, errors.errors.map((e) => e.name), Object.keys(new InsufficientFundsError(mei, 1e4)));
console.log(new Error('with stack').stack.split('\n')[0]);
process.exit(0);
