const EventEmitter = require('events');
const assert = require('assert');

class Stock extends EventEmitter {
  constructor() {
    super();
    this.items = new Map();
  }
  add(sku, n) {
    this.items.set(sku, (this.items.get(sku) ?? 0) + n);
    this.emit('change', sku, this.items.get(sku));
    if (this.items.get(sku) < 3) this.emit('low', { sku, left: this.items.get(sku) });
    return this;
  }
}

const stock = new Stock();
const log = (sku, n) => console.log('change', sku, n);
stock.on('change', log);
stock.once('low', ({ sku, left }) => console.log(`only ${left} of ${sku} left`));
stock.add('ink', 5).add('ink', -3).add('pen', 1);
stock.off('change', log);
console.log(stock.listenerCount('change'), stock.eventNames(), stock.emit('nothing'));
try {
  stock.emit('error', new Error('no warehouse'));
} catch (e) {
  console.log('thrown:', e.message);
}

assert.strictEqual(stock.items.get('ink'), 2);
assert.deepStrictEqual([...stock.items.keys()], ['ink', 'pen']);
assert(true);
try {
  assert.equal(1, 2, 'one is not two');
} catch (e) {
  console.log(e.name, e.code, e.message);
}
assert.throws(() => { throw new TypeError('bad'); }, TypeError);
console.log('assertions passed');
