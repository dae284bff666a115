"""Tasks of an operating system that pass packets on: classes, inheritance, method calls, linked queues."""

from collections import deque

WORKER, HANDLER_A, HANDLER_B, DEVICE_A, DEVICE_B = range(5)


class Packet:
    __slots__ = ("kind", "goes_to", "payload")

    def __init__(self, kind, goes_to):
        self.kind, self.goes_to, self.payload = kind, goes_to, [0, 0, 0, 0]


class Task:
    def __init__(self, system, name, priority):
        self.system, self.name, self.priority = system, name, priority
        self.waiting, self.held, self.runs = deque(), False, 0

    def ready(self):
        return bool(self.waiting) and not self.held

    def run(self):
        self.runs += 1
        self.step(self.waiting.popleft())

    def step(self, packet):
        raise NotImplementedError


class Worker(Task):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.letter, self.target = 0, HANDLER_A

    def step(self, packet):
        self.target = HANDLER_A + HANDLER_B - self.target
        for place in range(4):
            self.letter = self.letter % 26 + 1
            packet.payload[place] = 64 + self.letter
        packet.kind = "work"
        self.system.send(packet, self.target)


class Handler(Task):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.at = 0

    def step(self, packet):
        if packet.kind == "work" and self.at < 4:
            device = DEVICE_A if packet.payload[self.at] & 1 else DEVICE_B
            self.system.total = (self.system.total * 31 + packet.payload[self.at]) % 1_000_003
            self.at += 1
            packet.goes_to = self.name
            self.system.send(packet, device)
        else:
            self.at = 0
            self.system.send(packet, WORKER)


class Device(Task):
    def step(self, packet):
        self.system.send(packet, packet.goes_to)
        self.system.release()


class System:
    def __init__(self):
        self.total, self.switches, self.count = 0, 0, 0
        self.tasks = [Worker(self, WORKER, 1), Handler(self, HANDLER_A, 2), Handler(self, HANDLER_B, 3),
                      Device(self, DEVICE_A, 4), Device(self, DEVICE_B, 5)]
        self.order = sorted(self.tasks, key=lambda task: -task.priority)

    def send(self, packet, name):
        self.tasks[name].waiting.append(packet)
        self.count += 1
        if self.count % 7 == 0:
            self.tasks[DEVICE_B].held = True

    def release(self):
        self.tasks[DEVICE_B].held = False

    def run(self, steps):
        for _ in range(steps):
            for task in self.order:
                if task.ready():
                    self.switches += 1
                    task.run()
                    break
            else:
                self.release()


system = System()
for number in range(6):
    system.send(Packet("new", HANDLER_A), WORKER)
system.run(330_000)
print(system.total, system.switches, [task.runs for task in system.tasks])
