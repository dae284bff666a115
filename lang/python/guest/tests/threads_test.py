"""Programs with threads, as they are written: each is run as a script, and its output is what it is in any Python (where
that leaves an order open, one that it may be)."""

import hashlib
import json
import shutil
import signal
import textwrap
import time
import unittest
import urllib.request

from tests.session_test import SessionTest

from membrane import _net, _processes, _scheduler


class Clock:
    """Time that passes when somebody sleeps, and by `step` when somebody looks."""

    def __init__(self):
        self.now, self.step = 1_000.0, 0.0

    def monotonic(self):
        self.now += self.step
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class ThreadsTest(SessionTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(_processes.install())
        self.clock = Clock()
        for place, name, value in ((_scheduler, "_now", self.clock.monotonic), (_scheduler, "_sleep", self.clock.sleep),
                                   (_scheduler, "_time", 0.0), (time, "monotonic", self.clock.monotonic)):
            self.addCleanup(setattr, place, name, getattr(place, name))
            setattr(place, name, value)
        self.addCleanup(self.end_all)

    def end_all(self):
        """Ends the session's threads: what they leave would be reported when this process ends."""
        _scheduler.forget()
        while _scheduler._left_behind:
            _scheduler._left_behind.pop().steps.close()

    def script(self, code):
        """What it prints."""
        self.output.seek(0)
        self.output.truncate()
        self.errors.seek(0)
        self.errors.truncate()
        result = self.run_turn(textwrap.dedent(code), mode="script", name="program.py")
        self.assertIsNone(result["error"], (result["error"] or {}).get("traceback"))
        return self.output.getvalue().splitlines()

    def failing(self, code):
        """The error that it ends with."""
        return self.run_turn(textwrap.dedent(code), mode="script", name="program.py")["error"]


class TypicalPrograms(ThreadsTest):
    def test_threads_that_share_a_list(self):
        self.assertEqual(self.script("""
            import threading
            results = []
            lock = threading.Lock()
            def square(n):
                with lock:
                    results.append(n * n)
            threads = [threading.Thread(target=square, args=(i,)) for i in range(5)]
            for t in threads: t.start()
            for t in threads: t.join()
            print(sorted(results), any(t.is_alive() for t in threads))
            """), ["[0, 1, 4, 9, 16] False"])

    def test_threads_that_sleep_continue_in_the_order_of_time(self):
        self.assertEqual(self.script("""
            import threading, time
            def worker(name, delay):
                print(name, "begins")
                time.sleep(delay)
                print(name, "ends")
            start = time.monotonic()
            threads = [threading.Thread(target=worker, args=(f"T{i}", 3 - i)) for i in range(3)]
            for t in threads: t.start()
            print("main waits")
            for t in threads: t.join()
            print("took", round(time.monotonic() - start))
            """), ["T0 begins", "T1 begins", "T2 begins", "main waits", "T2 ends", "T1 ends", "T0 ends", "took 3"])

    def test_a_consumer_that_is_started_first(self):
        self.assertEqual(self.script("""
            import queue, threading
            q = queue.Queue()
            def consumer():
                total = 0
                while True:
                    item = q.get()
                    if item is None:
                        break
                    total += item
                    q.task_done()
                print("total", total)
            def producer():
                for i in range(5):
                    q.put(i)
                q.put(None)
            c = threading.Thread(target=consumer)
            c.start()
            p = threading.Thread(target=producer)
            p.start()
            p.join(); c.join()
            """), ["total 10"])

    def test_a_bounded_queue_between_two_threads(self):
        self.assertEqual(self.script("""
            import queue, threading
            q = queue.Queue(maxsize=2)
            most, got = 0, []
            def producer():
                global most
                for i in range(10):
                    q.put(i)
                    most = max(most, q.qsize())
                q.put(None)
            def consumer():
                while (item := q.get()) is not None:
                    got.append(item)
            threads = [threading.Thread(target=f) for f in (producer, consumer)]
            for t in threads: t.start()
            for t in threads: t.join()
            print(got, most)
            """), ["[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] 2"])

    def test_daemon_workers_and_a_queue_that_is_joined(self):
        self.assertEqual(self.script("""
            import queue, threading
            q = queue.Queue()
            done = []
            def worker():
                while True:
                    item = q.get()
                    done.append((threading.current_thread().name, item))
                    q.task_done()
            for i in range(3):
                threading.Thread(target=worker, daemon=True, name=f"w{i}").start()
            for item in range(6):
                q.put(item)
            q.join()
            print(sorted(item for _, item in done), sorted({name for name, _ in done}))
            q.put(6); q.join()
            print(len(done))
            """), ["[0, 1, 2, 3, 4, 5] ['w0', 'w1', 'w2']", "7"])

    def test_workers_that_end_at_a_sentinel_after_the_queue_was_joined(self):
        self.assertEqual(self.script("""
            import queue, threading
            q = queue.Queue()
            results = {}
            def worker(number):
                count = 0
                for item in iter(q.get, None):
                    count += 1
                    results[item] = item ** 2
                    q.task_done()
                results[f"worker {number}"] = count
            threads = []
            for i in range(3):
                t = threading.Thread(target=worker, args=(i,))
                t.start()
                threads.append(t)
            for item in range(9):
                q.put(item)
            q.join()
            print(sorted(results) == list(range(9)))
            for _ in threads: q.put(None)
            for t in threads: t.join()
            print([results[f"worker {i}"] for i in range(3)])
            """), ["True", "[3, 3, 3]"])

    def test_a_worker_class_with_a_stop_event(self):
        self.assertEqual(self.script("""
            import threading, time
            class Ticker(threading.Thread):
                def __init__(self, interval):
                    super().__init__(daemon=True)
                    self.interval, self.ticks = interval, 0
                    self.__stopped = threading.Event()
                def run(self):
                    while not self.__stopped.is_set():
                        self.ticks += 1
                        time.sleep(self.interval)
                def stop(self):
                    self.__stopped.set()
            t = Ticker(1)
            t.start()
            time.sleep(4.5)
            t.stop()
            t.join()
            print(t.ticks, t.is_alive())
            """), ["5 False"])

    def test_a_loop_that_waits_by_the_event_itself(self):
        self.assertEqual(self.script("""
            import threading
            stop, ready, seen = threading.Event(), threading.Event(), []
            def poll():
                ready.set()
                while not stop.wait(timeout=0.5):
                    seen.append(1)
            t = threading.Thread(target=poll)
            t.start()
            ready.wait()
            timer = threading.Timer(2.2, stop.set)
            timer.start()
            t.join()
            print(len(seen))
            """), ["4"])

    def test_a_condition_and_its_predicate(self):
        self.assertEqual(self.script("""
            import threading
            condition, items = threading.Condition(), []
            def consume(name):
                with condition:
                    while not items:
                        condition.wait()
                    print(name, items.pop(0))
            def consume_by_predicate():
                with condition:
                    condition.wait_for(lambda: len(items) > 0)
                    print("third", items.pop(0))
            threads = [threading.Thread(target=consume, args=(n,)) for n in ("first", "second")]
            threads.append(threading.Thread(target=consume_by_predicate))
            for t in threads: t.start()
            for i in range(3):
                with condition:
                    items.append(i)
                    condition.notify()
            for t in threads: t.join()
            """), ["first 0", "second 1", "third 2"])

    def test_a_semaphore_bounds_how_many_work_at_once(self):
        self.assertEqual(self.script("""
            import threading, time
            slots, lock = threading.BoundedSemaphore(2), threading.RLock()
            now = most = 0
            def work():
                global now, most
                with slots:
                    with lock:
                        now += 1
                        most = max(most, now)
                    time.sleep(1)
                    with lock:
                        now -= 1
            threads = [threading.Thread(target=work) for _ in range(6)]
            start = time.monotonic()
            for t in threads: t.start()
            for t in threads: t.join()
            print(most, round(time.monotonic() - start))
            """), ["2 3"])

    def test_a_barrier(self):
        self.assertEqual(self.script("""
            import threading
            barrier = threading.Barrier(3, action=lambda: print("all here"))
            def work(name):
                print(name, "arrives")
                barrier.wait()
                print(name, "goes on")
            threads = [threading.Thread(target=work, args=(n,)) for n in "abc"]
            for t in threads: t.start()
            for t in threads: t.join()
            """)[:4], ["a arrives", "b arrives", "c arrives", "all here"])

    def test_a_lock_that_is_held_over_a_wait(self):
        self.assertEqual(self.script("""
            import threading, time
            lock, log = threading.Lock(), []
            def work(name):
                lock.acquire()
                try:
                    log.append(name + " in")
                    time.sleep(0.1)
                    log.append(name + " out")
                finally:
                    lock.release()
            threads = [threading.Thread(target=work, args=(n,)) for n in "ab"]
            for t in threads: t.start()
            for t in threads: t.join()
            print(log)
            """), ["['a in', 'a out', 'b in', 'b out']"])

    def test_two_locks_in_two_orders_are_a_deadlock(self):
        error = self.failing("""
            import threading, time
            a, b = threading.Lock(), threading.Lock()
            def work(first, second):
                with first:
                    time.sleep(0.1)
                    with second:
                        pass
            threads = [threading.Thread(target=work, args=order) for order in ((a, b), (b, a))]
            for t in threads: t.start()
            for t in threads: t.join()
            """)
        self.assertEqual(error["type"], "RuntimeError")
        self.assertRegex(error["message"], r"deadlock.*another thread.*MainThread, Thread-\d+ \(work\), Thread-\d+ \(work\)")

    def test_data_of_a_thread_of_its_own(self):
        self.assertEqual(self.script("""
            import threading, time
            data = threading.local()
            data.name = "main"
            def work(name):
                data.name = name
                time.sleep(1)
                print(data.name, threading.current_thread().name, threading.get_ident() == threading.current_thread().ident)
            threads = [threading.Thread(target=work, args=(n,), name="thread " + n) for n in "ab"]
            for t in threads: t.start()
            print(len(threading.enumerate()), threading.active_count())
            for t in threads: t.join()
            print(data.name, threading.current_thread() is threading.main_thread(), threading.active_count())
            """), ["3 3", "a thread a True", "b thread b True", "main True 1"])

    def test_an_exception_ends_its_thread_only(self):
        self.assertEqual(self.script("""
            import threading
            def fail():
                raise ValueError("no such thing")
            t = threading.Thread(target=fail, name="failing")
            t.start(); t.join()
            print("main goes on")
            """), ["main goes on"])
        shown = self.errors.getvalue()
        self.assertTrue(shown.startswith(
            "Exception in thread failing:\nTraceback (most recent call last):\n  File \"program.py\""), shown)
        self.assertIn("in fail", shown)
        self.assertTrue(shown.endswith("ValueError: no such thing\n"))
        self.assertNotIn("membrane", shown)

    def test_the_end_of_a_script_waits_for_threads_but_not_for_daemons(self):
        self.assertEqual(self.script("""
            import threading, time
            def late(name):
                try:
                    time.sleep(1)
                    print(name)
                finally:
                    print(name, "is over")
            threading.Thread(target=late, args=("thread",)).start()
            def never():
                time.sleep(2)
                print("a daemon does not come here")
            threading.Thread(target=never, daemon=True).start()
            print("main ends")
            """), ["main ends", "thread", "thread is over"])

    def test_whether_a_thread_lives(self):
        self.assertEqual(self.script("""
            import threading, time
            t = threading.Thread(target=lambda: time.sleep(1), name="sleeper")
            print(t.is_alive(), t)
            t.start()
            print(t.is_alive())
            t.join(timeout=0.5)
            print(t.is_alive())
            looks = 0
            while t.is_alive():
                looks += 1
            print(t.is_alive(), looks > 0)
            try: t.start()
            except RuntimeError as error: print(error)
            """), ["False <Thread(sleeper, initial)>", "True", "True", "False True", "threads can only be started once"])


    def test_polling_lets_the_others_continue(self):
        self.assertEqual(self.script("""
            import threading, time
            stop, counts = threading.Event(), [0]
            def count():
                while not stop.is_set():
                    counts[0] += 1
            t = threading.Thread(target=count)
            t.start()
            time.sleep(0.05)
            stop.set()
            while t.is_alive():
                pass
            print(counts[0] > 100)
            """), ["True"])


    def test_a_wait_in_what_cannot_be_suspended_says_so(self):
        error = self.failing("""
            import queue, threading
            q, shown = queue.Queue(), []
            def consume():
                try: print(list(q.get() for _ in range(2)))
                except RuntimeError as error: shown.append(error)
            t = threading.Thread(target=consume, name="consumer")
            t.start()
            q.put(1); q.put(2)
            t.join()
            raise shown[0]
            """)
        self.assertRegex(error["message"], "MainThread could go on, but consumer waits on top of it.*a generator")

    def test_a_comprehension_waits_as_a_loop_does(self):
        self.assertEqual(self.script("""
            import queue, threading
            q, factor = queue.Queue(), 10
            def consume(count):
                scale = factor
                numbers = [q.get() * scale + n for n in range(count) if n != 1 for _ in "ab" if q is not None]
                table = {n: {q.get() for _ in range(2)} for n in (x for x in "xy")}
                print(numbers, {key: sorted(value) for key, value in table.items()})
            t = threading.Thread(target=consume, args=(3,))
            t.start()
            for i in range(8): q.put(i)
            t.join()
            """), ["[0, 10, 22, 32] {'x': [4, 5], 'y': [6, 7]}"])

    def test_a_thread_without_an_object(self):
        self.assertEqual(self.script("""
            import _thread, queue
            q = queue.Queue()
            _thread.start_new_thread(lambda a, b=0: q.put(a + b), (1,), {"b": 2})
            print(q.get())
            """), ["3"])

    def test_threads_continue_in_later_cells(self):
        self.run_turn(textwrap.dedent("""
            import queue, threading
            q, got = queue.Queue(), []
            def consume():
                for item in iter(q.get, None): got.append(item)
            t = threading.Thread(target=consume)
            t.start()
            """))
        self.assertEqual(self.run_turn("q.put(1); q.put(None)\nt.join(); got")["value"]["text/plain"], "[1]")

    def test_what_surrounds_a_function_stays_its_own(self):
        self.assertEqual(self.script("""
            import threading, time
            def counted():
                count, names = 0, []
                class Base:
                    def work(self, step): time.sleep(0.1); return step
                class Worker(Base):
                    def work(self, step=1, *more, twice=False, **rest):
                        nonlocal count
                        done = super().work(step) * (2 if twice else 1)
                        count += done
                        names.extend([*more, *rest, self.__class__.__name__, __class__.__name__])
                        with open("/dev/null") as nothing:
                            pass
                        for _ in range(2):
                            time.sleep(0.1)
                        else:
                            names.append("else")
                        try:
                            time.sleep(-1)
                        except ValueError as error:
                            names.append(str(error))
                threads = [threading.Thread(target=Worker().work, args=(3, "m"), kwargs={"twice": True, "r": 1}),
                           threading.Thread(target=Worker().work)]
                for t in threads: t.start()
                for t in threads: t.join()
                return count, names
            print(*counted())
            """), ["7 ['m', 'r', 'Worker', 'Worker', 'Worker', 'Worker', 'else', 'sleep length must be non-negative', "
                   "'else', 'sleep length must be non-negative']"])


class DaemonsWithoutTheirSource(ThreadsTest):
    """What a library starts whose source is not there, as that of the libraries in the image is not."""

    MONITOR = textwrap.dedent("""
        import threading, time
        class Monitor(threading.Thread):
            def __init__(self):
                super().__init__(name="monitor", daemon=True)
                self.killed, self.rounds = threading.Event(), 0
                self.start()
            def run(self):
                while True:
                    self.killed.wait(10)
                    if self.killed.is_set():
                        return
                    with lock:
                        self.rounds += 1
        lock = threading.Lock()
        """)
    IMPORT = f"exec(compile({MONITOR!r}, '<a library>', 'exec'))\n"

    def script_with_monitor(self, code):
        return self.script(self.IMPORT + textwrap.dedent(code))

    def nothing_was_told_of(self):
        self.assertNotIn("Exception", self.errors.getvalue())

    def test_a_monitor_delays_nothing(self):
        self.assertEqual(self.script_with_monitor("""
            begun = time.monotonic()
            with lock:
                monitor = Monitor()
            print(monitor.is_alive(), monitor.rounds, time.monotonic() - begun)
            time.sleep(1)
            print(monitor.is_alive(), monitor.rounds, time.monotonic() - begun)
            """), ["True 0 0.0", "True 0 1.0"])
        self.assertEqual(self.clock.now, 1_001.0)
        self.nothing_was_told_of()

    def test_a_monitor_works_while_others_wait(self):
        self.assertEqual(self.script_with_monitor("""
            monitor = Monitor()
            time.sleep(35)
            print(monitor.rounds, time.monotonic())
            """), ["3 1035.0"])

    def test_a_thread_that_is_asked_to_end_can_be_joined(self):
        self.assertEqual(self.script_with_monitor("""
            monitor = Monitor()
            monitor.killed.set()
            monitor.join()
            print(monitor.is_alive())
            """), ["False"])

    def test_a_wait_for_one_that_was_left_says_why_it_is_in_vain(self):
        error = self.failing(self.IMPORT + textwrap.dedent("""
            monitor = Monitor()
            time.sleep(1)
            monitor.killed.set()
            monitor.join()
            """))
        self.assertRegex(error["message"], "deadlock.*monitor ended where it had to wait: .*without its source.*a function of your own")
        self.nothing_was_told_of()

    def test_a_cell_ends_and_the_next_continues(self):
        for code in (self.IMPORT + "monitor = Monitor()", "monitor.is_alive()", "time.sleep(20); monitor.rounds"):
            result = self.run_turn(textwrap.dedent(code))
            self.assertIsNone(result["error"])
        self.assertEqual(self.clock.now, 1_020.0)
        self.nothing_was_told_of()

    def test_a_listener_of_logging_gets_all(self):
        self.assertEqual(self.script("""
            import logging, queue, sys, time
            from logging.handlers import QueueHandler, QueueListener
            q = queue.Queue()
            listener = QueueListener(q, logging.StreamHandler(sys.stdout))
            log = logging.getLogger("listened")
            log.propagate = False
            log.addHandler(QueueHandler(q))
            listener.start()
            log.warning("one")
            time.sleep(1)
            print("main goes on")
            log.warning("two")
            listener.stop()
            print("stopped", q.unfinished_tasks)
            """), ["one", "main goes on", "two", "stopped 0"])
        self.nothing_was_told_of()


class LoopsInThreads(ThreadsTest):
    def test_coroutines_are_handed_to_a_loop_in_a_thread(self):
        for target in ("loop.run_forever", "run"):
            self.assertEqual(self.script(f"""
                import asyncio, threading, time
                loop = asyncio.new_event_loop()
                def run():
                    asyncio.set_event_loop(loop)
                    loop.run_forever()
                thread = threading.Thread(target={target}, daemon=True)
                thread.start()
                async def later(n):
                    await asyncio.sleep(n)
                    return n, asyncio.get_running_loop() is loop
                begun = time.monotonic()
                futures = [asyncio.run_coroutine_threadsafe(later(n), loop) for n in (3, 1)]
                print([future.result() for future in futures], loop.is_running())
                print(asyncio.run_coroutine_threadsafe(later(2), loop).result(timeout=5), round(time.monotonic() - begun))
                print(asyncio.run(later(0)))
                async def asks():
                    there = asyncio.run_coroutine_threadsafe(later(1), loop)
                    time.sleep(2)
                    return [there.done(), await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(later(0), loop)),
                            asyncio.current_task() is not None, await later(0)]
                print(asyncio.run(asks()))
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                print(thread.is_alive(), loop.is_running())
                loop.close()
                """), ["[(3, True), (1, True)] True", "(2, True) 5", "(0, False)",
                    "[True, (0, True), True, (0, False)]", "False False"])

    def test_a_loop_that_runs_until_something_is_complete_is_suspended(self):
        """As a portal of anyio has it: the thread lives until another stops it, and serves others meanwhile."""
        for run in ("asyncio.run(serve())", "asyncio.Runner().run(serve())", "asyncio.new_event_loop().run_until_complete(serve())"):
            self.assertEqual(self.script(f"""
                import asyncio, concurrent.futures, threading
                ready = concurrent.futures.Future()
                async def serve():
                    stop = asyncio.Event()
                    ready.set_result((asyncio.get_running_loop(), stop))
                    await stop.wait()
                    return "served"
                def run():
                    try:
                        print({run})
                    except BaseException as error:
                        print("ended by", repr(error))
                thread = threading.Thread(target=run, daemon=True)
                thread.start()
                loop, stop = ready.result()
                print(loop.is_running(), asyncio.run_coroutine_threadsafe(asyncio.sleep(1, "slept"), loop).result())
                loop.call_soon_threadsafe(stop.set)
                thread.join()
                print(thread.is_alive(), loop.is_running())
                """), ["True slept", "served", "False False"])

    def test_loops_that_are_always_ready_alternate(self):
        self.clock.step = 0.001
        self.assertEqual(self.script("""
            import asyncio, threading, time
            stop = threading.Event()
            async def polls():
                while not stop.is_set():
                    await asyncio.sleep(0)
                return "stopped"
            thread = threading.Thread(target=lambda: print(asyncio.run(polls())))
            thread.start()
            time.sleep(0.2)
            stop.set()
            thread.join()
            print(thread.is_alive())
            """), ["stopped", "False"])

    def test_what_a_loop_in_a_thread_raises_is_the_threads(self):
        self.assertEqual(self.script("""
            import asyncio, concurrent.futures, threading
            async def fails(kind):
                await asyncio.sleep(1)
                raise kind("oh")
            def run():
                for kind in (ValueError, SystemExit, asyncio.CancelledError):
                    try:
                        asyncio.run(fails(kind))
                    except BaseException as error:
                        print(type(error).__name__)
                for wrong in (None, 5):
                    try:
                        asyncio.run(wrong)
                    except (TypeError, ValueError):
                        print("wrong")
                loop = asyncio.new_event_loop()
                loop.call_later(1, loop.stop)
                try:
                    loop.run_until_complete(loop.create_future())
                except RuntimeError as error:
                    print(error)
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            async def outer():
                return await asyncio.to_thread(lambda: asyncio.run(asyncio.sleep(1, "inner")))
            print(asyncio.run(outer()))
            async def beside():  # the usual way to wait for a coroutine in a function that a loop has called
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    return pool.submit(asyncio.run, asyncio.sleep(1, "beside")).result(), asyncio.current_task() is not None
            print(asyncio.run(beside()))
            """), ["ValueError", "SystemExit", "CancelledError", "wrong", "wrong", "Event loop stopped before Future completed.",
                    "inner", "('beside', True)"])

    def test_a_loop_in_a_thread_stays_for_later_cells(self):
        self.run_turn("import asyncio, threading\nloop = asyncio.new_event_loop()\n"
                      "threading.Thread(target=loop.run_forever, daemon=True).start()")
        code = "asyncio.run_coroutine_threadsafe(asyncio.sleep(1, 'slept'), loop).result()"
        for _ in range(2):
            self.assertEqual(self.run_turn(code)["value"]["text/plain"], "'slept'")
        self.run_turn("loop.call_soon_threadsafe(loop.stop)\nawait asyncio.sleep(0)\nloop.close()")


class Contexts(ThreadsTest):
    def test_context_variables_are_those_of_the_thread(self):
        self.assertEqual(self.script("""
            import asyncio, contextvars, decimal, threading
            from concurrent.futures import ThreadPoolExecutor
            name = contextvars.ContextVar("name", default="default")
            def show(*more):
                threading.Event().wait(0.01)
                print(name.get(), *more)
            name.set("a")
            context = contextvars.copy_context()
            name.set("b")
            for target in (show, lambda: context.run(show)):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
            thread = threading.Thread(target=context.run, args=(show, "again"))
            thread.start()
            thread.join()
            async def serve(n):
                name.set(f"request {n}")
                await asyncio.to_thread(show)
                await asyncio.to_thread(name.set, "leak")
                await asyncio.to_thread(show)
            async def main():
                await asyncio.gather(*(serve(n) for n in range(3)))
            asyncio.run(main())
            with ThreadPoolExecutor(1) as pool:
                print(pool.submit(lambda: (name.get(), decimal.getcontext().prec)).result(), name.get())
            """), ["default", "a", "a again", *[f"request {n}" for n in (0, 1, 2, 0, 1, 2)], "('default', 28) b"])

    def test_an_error_leaves_the_context(self):
        self.assertEqual(self.script("""
            import contextvars, threading
            name = contextvars.ContextVar("name", default="default")
            context = contextvars.copy_context()
            def fails():
                name.set("inside")
                threading.Event().wait(0.01)
                raise ValueError("oh")
            def run():
                try:
                    context.run(fails)
                except ValueError as error:
                    print(error, name.get(), context[name])
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            """), ["oh default inside"])


class Executors(ThreadsTest):
    def test_a_pool_that_has_an_idle_thread_starts_others(self):
        self.assertEqual(self.script("""
            import asyncio, queue, threading, time
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(3) as pool:
                pool.submit(int).result()
                barrier = threading.Barrier(3)
                print(sorted(future.result() for future in [pool.submit(barrier.wait) for _ in range(3)]))
            async def main():
                await asyncio.to_thread(int)
                begun = time.monotonic()
                await asyncio.gather(*(asyncio.to_thread(time.sleep, 1) for _ in range(5)))
                print(round(time.monotonic() - begun))
                q = queue.Queue()
                print(await asyncio.gather(asyncio.to_thread(q.get), asyncio.to_thread(q.put, 7)))
            asyncio.run(main())
            """), ["[0, 1, 2]", "1", "[7, None]"])

    def test_map_keeps_the_order(self):
        self.assertEqual(self.script("""
            from concurrent.futures import ThreadPoolExecutor
            import time
            def work(n):
                time.sleep(5 - n)
                return n * n
            start = time.monotonic()
            with ThreadPoolExecutor(max_workers=8) as pool:
                print(list(pool.map(work, range(5))))
            print(round(time.monotonic() - start))
            """), ["[0, 1, 4, 9, 16]", "5"])

    def test_futures_as_they_complete(self):
        self.assertEqual(self.script("""
            from concurrent.futures import ThreadPoolExecutor, as_completed
            import time
            def work(n):
                time.sleep(n)
                if n == 2: raise ValueError(f"{n} is bad")
                return n
            with ThreadPoolExecutor(max_workers=8) as pool:
                futures = {pool.submit(work, n): n for n in (3, 1, 2)}
                for future in as_completed(futures):
                    try:
                        print(futures[future], future.result())
                    except ValueError as error:
                        print(futures[future], "failed:", error)
            """), ["1 1", "2 failed: 2 is bad", "3 3"])

    def test_no_more_work_at_once_than_there_are_workers(self):
        self.assertEqual(self.script("""
            import concurrent.futures, threading, time
            names = set()
            def work(n):
                names.add(threading.current_thread().name)
                time.sleep(1)
            start = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(max_workers=2, thread_name_prefix="pool") as pool:
                futures = [pool.submit(work, n) for n in range(4)]
                print([f.running() for f in futures], futures[3].cancel())
            print(round(time.monotonic() - start), sorted(names))
            """), ["[True, True, False, False] True", "2 ['pool_0', 'pool_1']"])

    def test_waits_and_timeouts(self):
        self.assertEqual(self.script("""
            from concurrent.futures import *
            import time
            pool = ThreadPoolExecutor(4)
            futures = [pool.submit(time.sleep, n) for n in (1, 2, 30)]
            done, left = wait(futures, return_when=FIRST_COMPLETED)
            print(len(done), len(left))
            done, left = wait(futures, timeout=5)
            print(len(done), len(left))
            try: futures[2].result(timeout=1)
            except TimeoutError: print("late")
            try: list(as_completed(futures, timeout=1))
            except TimeoutError as error: print(error)
            print(futures[2].done())
            pool.shutdown(wait=False)
            """), ["1 2", "2 1", "late", "1 (of 3) futures unfinished", "False"])

    def test_an_initializer_and_its_failure(self):
        self.assertEqual(self.script("""
            from concurrent.futures import ThreadPoolExecutor
            import threading
            data = threading.local()
            def begin(value): data.value = value
            with ThreadPoolExecutor(2, initializer=begin, initargs=(7,)) as pool:
                print(pool.submit(lambda: data.value).result())
            def fail(): raise ValueError
            pool = ThreadPoolExecutor(initializer=fail)
            try: pool.submit(print).result()
            except Exception as error: print(type(error).__name__)
            """), ["7", "BrokenThreadPool"])

    def test_tasks_that_wait_for_tasks(self):
        self.assertEqual(self.script("""
            from concurrent.futures import ThreadPoolExecutor
            import threading
            opened = threading.Event()
            def second():
                opened.wait()
                return 2
            def first(pool):
                inner = pool.submit(second)
                opened.set()
                return 1 + inner.result()
            with ThreadPoolExecutor(2) as pool:
                print(pool.submit(first, pool).result())
            """), ["3"])

    def test_methods_closures_partials_and_callables(self):
        self.assertEqual(self.script("""
            from concurrent.futures import ThreadPoolExecutor
            import functools, time
            class Service:
                def __init__(self, factor): self.__factor = factor
                def call(self, n, *, plus=0):
                    time.sleep(1)
                    return n * self.__factor + plus
                def __call__(self, n): return self.call(n)
            def retry(function):
                @functools.wraps(function)
                def wrapper(*args, **kwargs):
                    for attempt in range(3):
                        try: return function(*args, **kwargs)
                        except OSError: time.sleep(2 ** attempt)
                    raise RuntimeError("gave up")
                return wrapper
            tries = []
            @retry
            def flaky(n):
                tries.append(n)
                if len(tries) < 6: raise OSError
                return n
            service = Service(10)
            start = time.monotonic()
            with ThreadPoolExecutor(8) as pool:
                print(list(pool.map(service.call, range(3))), list(pool.map(service, range(3))))
                print(pool.submit(functools.partial(service.call, plus=1), 4).result())
                print(list(pool.map(flaky, range(3))), pool.submit(lambda a, b=2: service.call(a) + b, 1).result())
            print(round(time.monotonic() - start))
            """), ["[0, 10, 20] [0, 10, 20]", "41", "[0, 1, 2] 12", "7"])


class Pools(ThreadsTest):
    def test_a_pool_of_threads(self):
        self.assertEqual(self.script("""
            from multiprocessing.pool import ThreadPool
            import time
            def work(n):
                time.sleep(3 - n)
                return n + 1
            with ThreadPool(3) as pool:
                print(pool.map(work, range(3)), pool.starmap(pow, [(2, 3), (3, 2)]))
                print(list(pool.imap(work, range(3))), list(pool.imap_unordered(work, range(3))))
                result = pool.apply_async(work, (1,), callback=lambda value: print("callback", value))
                print(result.ready(), result.get(), result.successful(), pool.apply(work, (2,)))
            """), ["[1, 2, 3] [8, 9]", "[1, 2, 3] [3, 2, 1]", "callback 2", "False 2 True 3"])


    def test_a_script_waits_for_a_pool_that_nobody_shut_down(self):
        self.assertEqual(self.script("""
            from concurrent.futures import ThreadPoolExecutor
            import time
            def late():
                time.sleep(1)
                print("late")
            pool = ThreadPoolExecutor(1)
            pool.submit(late); pool.submit(late)
            print("main ends")
            """), ["main ends", "late", "late"])

    def test_a_pool_of_processes_works_in_this_one(self):
        self.assertEqual(self.script("""
            import concurrent.futures, multiprocessing
            def work(items):
                items.append(len(items))
                return items
            given = [[1], [1, 2]]
            with multiprocessing.Pool(4) as pool:
                print(pool.map(work, given), given)
            with concurrent.futures.ProcessPoolExecutor(max_workers=2) as pool:
                print(list(pool.map(work, given, chunksize=2)), given)
                print(pool.submit(lambda: 5).result())
            with multiprocessing.get_context("spawn").Pool() as pool:
                print(pool.apply(len, ("abc",)))
            """), ["[[1, 1], [1, 2, 2]] [[1], [1, 2]]"] * 2 + ["5", "3"])

    def test_dummy_processes_are_threads(self):
        self.assertEqual(self.script("""
            from multiprocessing.dummy import Pool, Process, Queue
            q = Queue()
            def work(n): q.put(n + 1)
            p = Process(target=work, args=(1,))
            p.start(); p.join()
            with Pool(2) as pool:
                print(pool.map(str, [1, 2]), q.get())
            """), ["['1', '2'] 2"])


class Requests(ThreadsTest):
    """Threads that fetch: the host is asked for all of them at once."""

    def setUp(self):
        super().setUp()
        before = dict(vars(urllib.request))
        _net._installed = False
        _net.install()
        self.addCleanup(vars(urllib.request).update, before)
        self.asked = []

        def answer(request):
            if "denied" in request["url"]:
                return {"errno": "EACCES", "message": "no grant allows it", "grant": "--allow x"}
            return {"status": 200, "url": request["url"], "headers": {}, "body": request["url"][-1] + request.get("body", "")}

        def many(text):
            requests = json.loads(text)
            self.asked.append([request["url"] for request in requests])
            return json.dumps([answer(request) for request in requests])

        def one(method, url, headers, body):
            self.asked.append(url)
            return json.dumps(answer({"url": url, "body": body}))

        self.answers.update({"http.get_many": many, "http.exchange": one})

    def test_what_a_function_of_the_program_fetches_overlaps(self):
        self.assertEqual(self.script("""
            import requests
            from concurrent.futures import ThreadPoolExecutor
            def fetch(url):
                answer = requests.get(url, timeout=5)
                answer.raise_for_status()
                second = requests.post(url + "x", data="!").text
                return url, answer.text + second
            with ThreadPoolExecutor(max_workers=3) as pool:
                print([text for _, text in pool.map(fetch, [f"http://h/{i}" for i in range(4)])])
            """), ["['0x!', '1x!', '2x!', '3x!']"])
        self.assertEqual(self.asked, [["http://h/0", "http://h/1", "http://h/2"],
                                      ["http://h/0x", "http://h/1x", "http://h/2x"], "http://h/3", "http://h/3x"])

    def test_the_library_itself_may_be_the_function(self):
        self.assertEqual(self.script("""
            import asyncio, requests, threading, urllib.request
            from concurrent.futures import ThreadPoolExecutor, as_completed
            urls = [f"http://h/{i}" for i in range(3)]
            with ThreadPoolExecutor() as pool:
                print([a.text for a in pool.map(requests.get, urls)])
                with requests.Session() as session:
                    print([a.text for a in pool.map(session.get, urls)])
                print([a.read() for a in pool.map(urllib.request.urlopen, urls)])
                print(sorted(f.result().text for f in as_completed([pool.submit(requests.get, url) for url in urls])))
            async def main():
                answers = await asyncio.gather(*(asyncio.to_thread(requests.get, url) for url in urls))
                print([a.text for a in answers])
            asyncio.run(main())
            def worker(url): print(urllib.request.urlopen(url).read())
            threads = [threading.Thread(target=worker, args=(url,)) for url in urls]
            for t in threads: t.start()
            for t in threads: t.join()
            """), ["['0', '1', '2']"] * 2 + ["[b'0', b'1', b'2']", "['0', '1', '2']", "['0', '1', '2']",
                                             "b'0'", "b'1'", "b'2'"])
        self.assertEqual(self.asked, [[f"http://h/{i}" for i in range(3)]] * 6)

    def test_each_fails_by_itself(self):
        self.assertEqual(self.script("""
            import requests
            from concurrent.futures import ThreadPoolExecutor
            def fetch(url):
                try: return requests.get(url).text
                except requests.RequestException as error: return type(error).__name__, isinstance(error, PermissionError)
            with ThreadPoolExecutor() as pool:
                print(list(pool.map(fetch, ["http://h/1", "http://denied/", "nonsense", "http://h/2"])))
            """), ["['1', ('AccessDenied', True), ('MissingSchema', False), '2']"])
        self.assertEqual(self.asked, [["http://h/1", "http://denied/", "http://h/2"]])

    def test_no_more_than_eight_are_asked_for_at_once(self):
        self.script("""
            import requests
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(20) as pool:
                list(pool.map(requests.get, [f"http://h/{i}" for i in range(20)]))
            """)
        self.assertEqual([len(urls) for urls in self.asked], [8, 8, 4])

    def test_a_body_that_can_be_read_once_is_read_once(self):
        self.assertEqual(self.script("""
            import io, requests, threading
            def send(body): print(requests.post("http://h/1", data=body).text)
            threads = [threading.Thread(target=send, args=(body,)) for body in (io.BytesIO(b"a"), iter([b"b"]))]
            for t in threads: t.start()
            for t in threads: t.join()
            """), ["1a", "1b"])


class WhatIsNotThere(ThreadsTest):
    def error(self, code):
        return self.run_turn(code)["error"]["message"]

    def test_processes_say_what_to_do_instead(self):
        for code, shown in (
                ("import subprocess; subprocess.run(['ls', '-l'])", "there are no processes.*'ls -l'; use os.listdir"),
                ("import subprocess; subprocess.check_output('curl http://h/', shell=True)", "requests.get"),
                ("import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'x'])",
                 "cannot be installed"),
                ("import os; os.system('make all')", "os.system cannot run 'make all'; do it in Python"),
                ("import os; os.popen('pwd').read()", "os.getcwd"),
                ("import asyncio; asyncio.run(asyncio.create_subprocess_shell('cat x'))", "asyncio cannot run 'cat x'"),
                ("from multiprocessing import Process; Process(target=print).start()", "threading.Thread"),
                ("import multiprocessing; multiprocessing.Queue()", "queue.Queue"),
                ("import multiprocessing; multiprocessing.Manager()", "dict and list")):
            self.assertRegex(self.error(code), shown, code)
        self.assertRegex(_message_of_missing("fork"), "no os.fork.*threading.Thread")
        self.assertRegex(_message_of_missing("execvp"), "no os.execvp")
        self.assertRegex(_message_of_missing("nosuch"), "has no attribute 'nosuch'")

    def test_what_is_missing_of_a_module_says_why(self):
        for module, name, shown in ((hashlib, "scrypt", "no hashlib.scrypt: .*hashlib.pbkdf2_hmac"),
                                    (signal, "alarm", "no signal.alarm: .*asyncio.timeout"),
                                    (signal, "setitimer", "no signal.setitimer: "),
                                    (shutil, "disk_usage", "no shutil.disk_usage: "),
                                    (hashlib, "nosuch", "module 'hashlib' has no attribute 'nosuch'"),
                                    (shutil, "nosuch", "module 'shutil' has no attribute 'nosuch'")):
            with self.assertRaisesRegex(AttributeError, shown):
                vars(module)["__getattr__"](name)
            self.assertFalse(hasattr(module, "nosuch"))
        self.assertRegex(_message_of_missing("pipe"), "no os.pipe.*queue.Queue")

    def test_sockets_say_what_to_do_instead(self):
        for code in ("import socket; socket.socket()", "import socket; socket.create_connection(('h', 80))",
                     "import socket; socket.gethostbyname('h')",
                     "import smtplib; smtplib.SMTP('h')",
                     "import asyncio; asyncio.run(asyncio.open_connection('h', 80))"):
            self.assertRegex(self.error(code), "no sockets here: use requests or urllib.request", code)


def _message_of_missing(name):
    try:
        _processes._missing(name)
    except AttributeError as error:
        return str(error)


if __name__ == "__main__":
    unittest.main()
