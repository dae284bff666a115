from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum, Flag, IntEnum, auto
from typing import ClassVar, NamedTuple, Protocol, TypedDict


class Status(Enum):
    NEW = "new"
    PAID = "paid"
    SENT = "sent"

    def next(self) -> Status:
        members = list(Status)
        return members[min(members.index(self) + 1, len(members) - 1)]


class Priority(IntEnum):
    LOW = auto()
    HIGH = auto()


class Permission(Flag):
    READ = auto()
    WRITE = auto()
    ALL = READ | WRITE


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Priced(Protocol):
    price: float


class Row(TypedDict, total=False):
    name: str
    price: float


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    price: float
    quantity: int = 1

    def __post_init__(self):
        if self.price < 0:
            raise ValueError(f"price of {self.name} is negative")

    @property
    def total(self) -> float:
        return self.price * self.quantity


@dataclass
class Order:
    tax: ClassVar[float] = 0.19
    number: int
    items: list[Item] = field(default_factory=list)
    status: Status = Status.NEW
    secret: str = field(default="", repr=False, compare=False)

    def total(self) -> float:
        return round(sum(i.total for i in self.items) * (1 + self.tax), 2)


def cheapest(things: list[Priced]) -> Priced:
    return min(things, key=lambda t: t.price)


order = Order(7, [Item("ink", 9.6, 2), Item("pen", 34.5)], secret="x")
print(order, order.total())
print(json.dumps(asdict(order), default=lambda o: o.value))
print(cheapest(order.items), replace(order.items[0], quantity=5).total)
print([f.name for f in fields(Order)], order == Order(7, order.items, secret="y"))
print(order.status.next(), order.status.next().next().next().name, Status("paid"), Priority.HIGH > Priority.LOW, max(Priority).name)
print(Permission.READ in Permission.ALL, Permission.ALL & ~Permission.READ, Permission.READ | Permission.WRITE)
print(Point(1), Point(1, 2)._replace(x=5), Row(name="a"))
for attempt in (lambda: Item("x", -1), lambda: setattr(order.items[0], "price", 1), lambda: Status("lost")):
    try:
        attempt()
    except Exception as e:
        print(type(e).__name__, "-", e)
