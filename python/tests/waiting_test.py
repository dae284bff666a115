"""Tests turns that wait for calls to be answered, with the installed package. Skipped if it has no engine, or the language is not installed."""

import json
import subprocess
import sys
import textwrap
import unittest

import membrane
from membrane import LATER, Call, MembraneError, Object, Session, load


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


class Waiting(unittest.TestCase):
    def test_a_call_that_waits(self):
        with Session() as session:
            call = session.start("approve(transfer(120))")
            self.assertIsInstance(call, Call)
            self.assertEqual((call.name, call.args), ("transfer", (120,)))
            call = call.resume({"id": 7})
            self.assertEqual((call.name, call.args), ("approve", ({"id": 7},)))
            self.assertEqual(call.resume(True).text, "True")
            self.assertEqual(session.run("1").text, "1")

    def test_in_another_process(self):
        with Session(functions={"approve": LATER, "double": lambda n: 2 * n}) as session:
            session.run("total = double(21)").check()
            blob = session.start("total if approve(total) else 'refused'").dump()
        self.assertLess(len(blob), 256 << 10)
        program = """
            import sys, membrane
            call = membrane.load(sys.stdin.buffer.read(), functions={"double": lambda n: 2 * n})
            print(call.name, call.args, call.resume(True).text)
        """
        ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], input=blob, capture_output=True, check=True)
        self.assertEqual(ran.stdout, b"approve (42,) 42\n")

    def test_a_waiting_call_may_fail(self):
        with Session() as session:
            end = session.start("try:\n  approve()\nexcept PermissionError as error:\n  said = str(error)\nsaid").fail(
                PermissionError("not today"))
            self.assertEqual(end.text, "'not today'")

    def test_several_wait_together(self):
        async def unused():
            pass

        with Session(functions={"f": LATER}) as session:
            session.run("import asyncio\nfrom membrane import _functions").check()
            call = session.start("await asyncio.gather(_functions.call_async('f', (1,)), _functions.call_async('f', (2,)))")
            self.assertEqual([each.args for each in call.calls], [(1,), (2,)])
            call = call.resume("a")
            self.assertEqual([each.args for each in call.calls], [(2,)])
            self.assertEqual(call.resume("b").text, "['a', 'b']")

    def test_functions_may_answer_later(self):
        asked = []

        def approve(amount: int) -> bool:
            """Whether the amount may be sent."""
            asked.append(amount)
            return LATER if amount > 100 else True

        async def rate(currency: str) -> float:
            return LATER

        with Session(functions=[approve, rate], modules={"bank": {"rate": rate}}) as session:
            self.assertEqual(session.run("approve(5)").text, "True")
            self.assertEqual(session.run("approve(500)").error.code, "RuntimeError")
            call = session.start("[approve(n) for n in (1, 200)]")
            self.assertEqual((call.name, call.args, asked), ("approve", (200,), [5, 500, 1, 200]))
            self.assertEqual(call.resume(False).text, "[True, False]")
            self.assertEqual(asked, [5, 500, 1, 200])  # an answer that came is not asked for again
            call = session.start("import asyncio, bank\nawait asyncio.gather(rate('EUR'), bank.rate('CHF'), rate('SEK'))")
            self.assertEqual([(each.name, *each.args) for each in call.calls], [("rate", "EUR"), ("bank.rate", "CHF"), ("rate", "SEK")])
            self.assertEqual(len(call.so_far.report["waits_for"]), 3)
            call = load(call.dump(), functions=[approve, rate], modules={"bank": {"rate": rate}})
            call = call.resume(1.1, 1.0)
            self.assertEqual([each.args for each in call.calls], [("SEK",)])
            self.assertEqual(call.resume(0.1).text, "[1.1, 1.0, 0.1]")

    def test_undefined_names_are_awaited(self):
        with Session() as session:
            call = session.start("import asyncio\nawait asyncio.gather(*[ask(n) for n in (1, 2)], tell(3)), await say(4)")
            self.assertEqual([(each.name, *each.args) for each in call.calls], [("ask", 1), ("ask", 2), ("tell", 3)])
            call = call.resume("a", "b", "c")
            self.assertEqual((call.name, call.args), ("say", (4,)))
            self.assertEqual(call.resume("d").text, "(['a', 'b', 'c'], 'd')")

    def test_a_gate_sees_a_call_that_waits(self):
        with Session(functions={"f": LATER}, gate=lambda call: call.args == (1,)) as session:
            self.assertEqual(session.start("f(1)").resume(5).text, "5")
            self.assertEqual(session.start("f(2)").error.code, "PermissionError")

    def test_a_call_is_given_up(self):
        with Session() as session:
            session.run("x = 1").check()
            with self.assertRaises(MembraneError):
                session.abandon()
            call = session.start("x = 2\napprove(x)")
            busy = session.run("x")
            self.assertEqual(busy.outcome, "invalid")
            self.assertIn("approve", busy.error.message)
            self.assertIn("resume()", busy.error.hint)
            self.assertIn("abandon()", busy.error.hint)
            blob = call.dump()
            call.abandon()
            self.assertEqual(session.run("x").text, "1")
            session.start("approve(0)")
            session.abandon()
            self.assertEqual(session.run("x").text, "1")
        again = load(blob)
        again.abandon()
        self.assertEqual(again.session.run("x").text, "1")
        again.session.close()

    def test_one_of_several_fails(self):
        async def f(n):
            return LATER

        with Session(functions=[f]) as session:
            call = session.start("import asyncio\nawait asyncio.gather(f(1), f(2), return_exceptions=True)")
            call = call.fail(ValueError("no"))
            self.assertEqual([each.args for each in call.calls], [(2,)])
            self.assertEqual(call.resume(2).text, "[ValueError('no'), 2]")

    def test_a_waiting_session_is_forked_and_run_does_not_wait(self):
        with Session(functions={"f": LATER}) as session:
            self.assertEqual(session.run("f()").error.code, "RuntimeError")
            session.start("f()")
            self.assertEqual(session.run("1").outcome, "invalid")
            with session.fork() as branch:
                self.assertEqual(branch.waiting.resume(2).text, "2")

    def test_the_call_of_a_session_that_waits(self):
        with Session(functions={"f": LATER}) as session:
            self.assertIsNone(session.waiting)
            call = session.start("f(1) + f(2)")
            self.assertEqual((session.waiting.args, session.waiting.so_far.outcome), ((1,), "waiting"))
            call.resume(10)
            self.assertEqual(session.waiting.args, (2,))
            with session.fork() as branch, load(session.dump(), functions={"f": LATER}).session as loaded:
                self.assertEqual([each.waiting.resume(5).text for each in (session, branch, loaded)], ["15"] * 3)
                self.assertEqual([each.waiting for each in (session, branch, loaded)], [None] * 3)
            session.start("f(1)")
            session.abandon()
            self.assertIsNone(session.waiting)

    def test_a_session_whose_turn_was_interrupted_waits_for_nothing(self):
        def interrupted():
            raise KeyboardInterrupt

        with Session(functions={"f": LATER, "g": interrupted}) as session:
            call = session.start("f(1); g()")
            with self.assertRaises(KeyboardInterrupt):
                call.resume(1)
            self.assertIsNone(session.waiting)
            self.assertEqual(session.run("1").text, "1")
            session.start("f(1)")
        self.assertIsNone(session.waiting)

    def test_too_many_values_leave_the_call_as_it_was(self):
        with Session() as session:
            call = session.start("approve(1)")
            with self.assertRaisesRegex(ValueError, "3 values for 1 waiting call"):
                call.resume(1, 2, 3)
            self.assertEqual(call.resume(1).text, "1")

    def test_objects_among_the_inputs_are_given_again(self):
        class Account:
            def __init__(self, balance):
                self.balance = balance

            def deposit(self, amount):
                self.balance += amount
                return self.balance

        class Bank:
            def open(self):
                return Object(Account(0), methods=["deposit"])

        def inputs(*balances):
            accounts = [Object(Account(each), methods=["deposit"], attributes=["balance"]) for each in balances]
            return {"n": 1, "accounts": accounts, "bank": Object(Bank(), methods=["open"])}

        seen = []
        functions = {"show": seen.append}
        with Session(inputs=inputs(1, 2), functions=functions) as session:
            session.run("n = 5; mine = bank.open(); held = accounts[1]; mine.deposit(7)").check()
            blob = session.dump()
            waiting = session.start("approve(held) and held.balance").dump()
        given = inputs(10, 20)
        with load(blob, inputs=given, functions=functions) as again:
            self.assertEqual(again.run("n, held.deposit(1), accounts[0].balance").text, "(5, 21, 10)")
            again.run("show(held)").check()
            self.assertIs(seen[0], given["accounts"][1].value)
            for code in ("mine.deposit(1)", "show(mine)"):
                lost = again.run(code).error
                self.assertEqual(lost.code, "LookupError")
                self.assertIn("the Account that the program holds is an object of the process that dumped the session", lost.message)
                self.assertIn("call the function again", lost.message)
            self.assertEqual(again.run("other = bank.open(); other.deposit(3)").text, "3")
            self.assertEqual(again.run("mine.deposit(1)").error.code, "LookupError")  # no new object takes its place
            with load(again.dump(), inputs=inputs(30, 40)) as third:
                self.assertEqual(third.run("held.balance").text, "40")
        with load(blob) as without:
            self.assertIn("load(…, inputs=…)", without.run("held.deposit(1)").error.message)
            with load(without.dump(), inputs=inputs(30, 40)) as third:
                self.assertEqual(third.run("held.balance").text, "40")
        with self.assertRaisesRegex(ValueError, "the Objects Account, Bank, and the session's had Account, Account, Bank"):
            load(blob, inputs=inputs(1))
        self.assertEqual(load(waiting, inputs=given).resume(True).text, "21")
        with self.assertRaisesRegex(MembraneError, "inputs="):
            load(waiting)

    def test_wrong_arguments_are_named(self):
        for error, said, arguments in (
            (TypeError, "functions must be a list", {"functions": 5}), (TypeError, "functions must be callable, not 5", {"functions": [5]}),
            (TypeError, "give a dict of names", {"functions": [lambda: 1]}), (TypeError, "f must be a function", {"functions": {"f": 5}}),
            (TypeError, "of the module m must be a list", {"modules": {"m": 5}}), (TypeError, "modules must be a dict", {"modules": 5}),
            (TypeError, "limits must be a dict", {"limits": 5}), (TypeError, "allow must be a list", {"allow": 5}),
            (TypeError, "gate must be a function, not 5", {"gate": 5}), (TypeError, "on_stdout must be a function", {"on_stdout": 5}),
            (TypeError, "on_stderr must be a function", {"on_stderr": 5}), (TypeError, "idle_timeout_s must be a number", {"idle_timeout_s": "5"}),
            (ValueError, "of at least 0", {"lifetime_s": -1}), (ValueError, "no wall 'x'. There are", {"accepted_missing_walls": ["x"]}),
            (ValueError, "did you mean user_namespace", {"accepted_missing_walls": "user_namespaces"}),
            (TypeError, "list of names", {"accepted_missing_walls": 5}),
        ):  # fmt: skip
            with self.assertRaisesRegex(error, said, msg=arguments):
                Session(**arguments)
        with Session() as session:
            for act, said in ((session.run, "did you mean inputs"), (session.start, "did you mean inputs"), (session.check, "did you mean inputs")):
                with self.assertRaisesRegex(TypeError, said):
                    act("1", input={})

    def test_names_that_are_keywords(self):
        for kind, given in (("input", {"inputs": {"class": 1}}), ("function", {"functions": {"class": len}}), ("module", {"modules": {"class": [len]}}),
                            ("function", {"modules": {"shop": {"class": len}}})):  # fmt: skip
            with self.assertRaisesRegex(MembraneError, f"the {kind} class has the name of a keyword"):
                Session(**given)
        with self.assertWarnsRegex(RuntimeWarning, "the module os hides Python's own"), Session(modules={"os": {"f": lambda: 1}}):
            pass

    def test_a_missing_file_of_the_embedder(self):
        def read():
            return open("/nowhere/of/mine").read()

        with Session(functions=[read]) as session:
            self.assertEqual(session.run("read()").error.hint, "")
            self.assertIn("granted", session.run("open('/nowhere/of/mine')").error.hint)

    def test_hints_of_grants_and_calls(self):
        with self.assertRaises(MembraneError) as caught:
            Session(allow=["fs:reed:."])
        self.assertIn('write allow=["fs:read:."]', caught.exception.hint)
        with Session(functions={"late": LATER}) as session:
            call = session.start("late()")
            call.resume(1)
            self.assertIn("start() begins a turn", call.resume(1).error.hint)

    def test_heads_of_bytes_that_list_objects(self):
        import json

        with Session() as session:
            content = session.dump()
        at = content.index(b"}}") + 2
        for objects in (None, [], {"count": "x"}, {"count": -1, "inputs": []}, {"count": 1 << 90, "inputs": []}, {"count": 0, "inputs": 5},
                        {"count": True, "inputs": [{}]}, {"count": 2, "inputs": ["A"], "numbers": [[]]}, {"count": 2, "inputs": ["A"], "numbers": [3]},
                        {"count": 2, "inputs": ["A"], "numbers": 5}, {"count": 2, "inputs": ["A", "A"], "numbers": [1, 1]}):
            head = json.dumps({"language": "python", "objects": objects}).encode()
            with load(b"MEMBPY1\n" + len(head).to_bytes(4, "little") + head + content[at:]) as session:
                self.assertEqual(session.run("1").text, "1")

    def test_an_idle_session_is_dumped_too(self):
        with Session() as session:
            session.run("x = 41")
            blob = session.dump()
        with load(blob) as again:
            self.assertEqual(again.run("x + 1").text, "42")

    def test_functions_are_not_described_again(self):
        functions = {f"f{i}": lambda n: n for i in range(30)}
        with Session(functions=functions, inputs={"given": 1}) as session:
            first = session.run("f1(1)").fuel
            second = session.run("f1(1)").fuel
            self.assertGreater(first, 10 * second)
            with session.fork() as branch:
                of_fork = branch.run("f1(1)").fuel
            session.run("import os; os._exit(1)")
            after = session.run("f1(1)")
            blob = session.dump()
        with load(blob, functions=functions) as again:
            of_loaded = again.run("f1(1)").fuel
        with load(blob, functions={**functions, "more": lambda: 1}) as more:
            self.assertEqual(more.run("more(), f1(2)").text, "(1, 2)")
        for fuel in (of_fork, after.fuel, of_loaded):
            self.assertLess(fuel, 2 * second, (first, second, fuel))  # it is given fresh entropy

    def test_damaged_bytes(self):
        with Session() as session:
            blob = session.dump()
        for damaged in (b"", blob[:10], blob[:-1], blob[:200] + b"x" + blob[201:], b"MEMBPY1\n\xff\xff\xff\xff", b"MEMBPY1\n\x02\0\0\0[]"):
            with self.assertRaises(MembraneError):
                load(damaged)


if __name__ == "__main__":
    unittest.main()
