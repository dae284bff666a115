import threading
import time


class Account:
    def __init__(self):
        self.balance = 0
        self.lock = threading.Lock()

    def deposit(self, amount, times):
        for _ in range(times):
            with self.lock:
                self.balance += amount


account = Account()
threads = [threading.Thread(target=account.deposit, args=(i, 500), name=f"worker-{i}") for i in range(1, 5)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("balance:", account.balance)
print("alive:", [t.is_alive() for t in threads], threads[0].name)

ready = threading.Event()
log = []


def waiter():
    ready.wait(timeout=2)
    log.append("waiter saw the event")


def setter():
    time.sleep(0.01)
    log.append("setting")
    ready.set()


a, b = threading.Thread(target=waiter), threading.Thread(target=setter)
a.start()
b.start()
a.join()
b.join()
print(log)

local = threading.local()
local.x = 1
seen = []
t = threading.Thread(target=lambda: seen.append(hasattr(local, "x")))
t.start()
t.join()
print(seen, threading.current_thread().name)

timer = threading.Timer(0.01, lambda: print("timer fired"))
timer.start()
timer.join()
