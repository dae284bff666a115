from abc import ABC, abstractmethod
from contextlib import contextmanager
from decimal import Decimal


class InsufficientFunds(Exception):
    def __init__(self, account, amount):
        super().__init__(f"{account.owner} lacks {amount - account.balance:.2f}")
        self.account = account


class Account(ABC):
    count = 0

    def __init__(self, owner, balance="0"):
        self.owner, self._balance, self.history = owner, Decimal(balance), []
        Account.count += 1

    @property
    def balance(self):
        return self._balance

    def deposit(self, amount):
        amount = Decimal(amount)
        if amount <= 0:
            raise ValueError("amount must be positive")
        self._balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        amount = Decimal(amount)
        if amount > self.balance + self.credit():
            raise InsufficientFunds(self, amount)
        self._balance -= amount
        self.history.append(("withdraw", amount))

    @abstractmethod
    def credit(self): ...

    def __repr__(self):
        return f"<{type(self).__name__} {self.owner}: {self.balance:.2f}>"

    def __lt__(self, other):
        return self.balance < other.balance


class Savings(Account):
    def credit(self):
        return Decimal(0)

    def add_interest(self, rate):
        self.deposit((self.balance * Decimal(rate)).quantize(Decimal("0.01")))


class Current(Account):
    def credit(self):
        return Decimal(100)


@contextmanager
def transaction(*accounts):
    before = [a._balance for a in accounts]
    try:
        yield
    except Exception as error:
        for a, b in zip(accounts, before):
            a._balance = b
        print("rolled back:", error)
    else:
        print("committed")


a, b = Savings("Mei", "500"), Current("Otto", "50")
with transaction(a, b):
    a.withdraw("120.50")
    b.deposit("120.50")
with transaction(a, b):
    b.withdraw("250")
    a.withdraw("1000")
a.add_interest("0.0175")
for bad in ("-5", "x"):
    try:
        a.deposit(bad)
    except (ValueError, ArithmeticError) as e:
        print(type(e).__name__, e)
try:
    Account("Nobody")
except TypeError as e:
    print("TypeError:", str(e)[:40])
print(sorted([a, b]), Account.count, a.history)
