"""Approval, a model, a person and receipts of a session, of the installed package. Skipped where it has no engine, or a language is not installed."""

import asyncio
import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings
import weakref
from pathlib import Path

import membrane
from membrane import (
    LATER,
    AsyncPool,
    AsyncSession,
    EgressQuestion,
    Flows,
    MembraneError,
    Model,
    ModelAnswer,
    ModelRequest,
    Pool,
    Receipts,
    Session,
    load,
)

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
# What is read of the store is private and of untrusted origin, and the model is the way out.
POLICY = {"ask": True, "kv": {"private": True, "untrusted": True}, "ai": {"embed": True}, "trifecta": {"egress": "ask"},
          "limits": {"fuel": "4e9", "wall": "10 min"}}  # fmt: skip
READ = "membrane.kv.set('k', 'secret'); membrane.kv.get('k')"
SEND = "membrane.ai.complete('hello')"
ASK = "membrane.agent.ask('Which year?')"
CAUGHT = "try {{ {} }} catch (e) {{ `${{e.name}}: ${{e.message}}` }}"
ISOLATED = os.environ.get("MEMBRANE_TEST_ISOLATED") == "1"


def setUpModule():
    try:
        membrane.open_language("js")
        session().close()
    except MembraneError as error:
        if "membrane-worker" in str(error):
            raise
        raise unittest.SkipTest(str(error)) from None


def options(**more):
    return {"policy": POLICY, "isolated": ISOLATED, **more}


def session(language="js", **more):
    return Session(language, **options(**more))


def echo(request):
    return f"said {request.prompt}"


@contextlib.contextmanager
def unraisable():
    told = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda error: told.append(error.exc_value)
    try:
        yield told
    finally:
        sys.unraisablehook = hook


class Approval(unittest.TestCase):
    def test_a_yes_is_asked_for_before_something_leaves(self):
        asked = []
        with session(approve=lambda question: asked.append(question) or True, model=echo) as of:
            self.assertEqual(of.run(SEND).text, "'said hello'", "nothing was read yet")
            of.run(READ).check()
            self.assertEqual(asked, [])
            self.assertEqual(of.run(SEND).text, "'said hello'")
        (question,) = asked
        self.assertIsInstance(question, EgressQuestion)
        self.assertEqual((question.function, question.bytes), ("ai.complete", 6))
        self.assertEqual([(read.function, read.target) for read in question.private_reads.first], [("kv.get", "k")])
        self.assertEqual((len(question.untrusted_reads.first), question.untrusted_reads.more), (1, 0))
        self.assertTrue(0 < question.timeout_s <= 600)

    def test_nothing_leaves_without_a_yes(self):
        def broken(question):
            raise RuntimeError("/home/of/mine")

        async def refuses(question):
            return False

        for approve in (None, lambda question: False, lambda question: None, lambda question: 1, lambda question: "yes", broken, refuses):
            heard = []
            with unraisable() as told, session(approve=approve, model=heard.append) as of:
                of.run(READ).check()
                result = of.run(SEND)
                self.assertIn("trifecta rule", str(result.error), approve)
                self.assertNotIn("of/mine", json.dumps(result.report))
            self.assertEqual(heard, [])
            if approve is broken:
                self.assertEqual([str(each) for each in told], ["/home/of/mine"])

    def test_a_coroutine_in_the_loop_of_the_session(self):
        loops = []

        async def approve(question):
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())
            return True

        async def model(request):
            loops.append(asyncio.get_running_loop())
            return ModelAnswer(echo(request), 1, 2)

        async def main():
            async with AsyncSession("js", **options(approve=approve, model=model)) as of:
                await of.run(READ)
                self.assertEqual((await of.run(SEND)).text, "'said hello'")
            self.assertEqual(loops, [asyncio.get_running_loop()] * 2)

        asyncio.run(main())
        with session(approve=approve, model=model) as of:
            of.run(READ)
            self.assertEqual(of.run(SEND).text, "'said hello'")

    def test_flows_are_shared(self):
        flows = Flows()
        with session(flows=flows) as reads, session(flows=flows, model=echo) as sends, session(model=echo) as apart:
            self.assertFalse(flows.is_closed)
            self.assertEqual(sends.run(SEND).text, "'said hello'")
            reads.run(READ).check()
            self.assertTrue(flows.is_closed)
            self.assertEqual([each.function for each in flows.private_reads.first], ["kv.get"])
            self.assertEqual(len(flows.untrusted_reads.first), 1)
            self.assertIn("trifecta rule", str(sends.run(SEND).error))
            self.assertTrue(apart.run(SEND).ok)
            with reads.fork() as branch:
                branch.run("membrane.kv.set('other', '1'); membrane.kv.get('other')").check()
            self.assertEqual(len(flows.private_reads.first), 2)

    def test_a_program_that_writes_its_own_request_is_asked_for_as_well(self):
        asked = []
        with session("python", approve=lambda question: asked.append(question), model=echo) as of:
            of.run("from membrane import kv; kv.set('k', 's'); kv.get('k')").check()
            of.run("import json\nfrom membrane import _door\ndef ask(call): return _door.exchange(json.dumps(call).encode())")
            for call in ({"call": "ai.complete", "args": ["x"]}, {"call": "ai.complete", "arguments": ["x"]}, {"approve": True}, {"ai.complete": ["x"]}, [], 7):
                self.assertNotIn("said", of.run(f"try: said = str(ask({call!r}))\nexcept Exception as e: said = ''\nsaid").text)
            self.assertIn("trifecta", str(of.run("from membrane import ai; ai.complete('x' * 100_000)").error))
        self.assertTrue(all(each.function == "ai.complete" for each in asked) and asked)


class AModel(unittest.TestCase):
    def test_it_answers(self):
        heard = []

        def complete(request):
            heard.append(request)
            return ModelAnswer(echo(request), tokens_in=3, tokens_out=2)

        with session(model=Model(complete, lambda text, timeout_s: [len(text), 0.5])) as of:
            self.assertEqual(of.run(SEND).text, "'said hello'")
            self.assertEqual(of.run("JSON.parse(membrane.ai.embed('four'))").text, "[ 4, 0.5 ]")
            with of.fork() as branch:
                self.assertEqual(branch.run(SEND).text, "'said hello'")
        self.assertIsInstance(heard[0], ModelRequest)
        self.assertEqual((heard[0].prompt, heard[0].system, len(heard)), ("hello", "", 2))
        self.assertTrue(heard[0].max_tokens > 0 and heard[0].timeout_s > 0)

    def test_tokens_are_paid(self):
        with session(model=lambda request: ModelAnswer("a", 3, 2), limits={"tokens": 5}) as of:
            self.assertEqual(of.run(f"{SEND}; {SEND}").outcome, "raised")
            self.assertEqual(of.run(SEND).text, "'a'", "the limit is of a turn")

    def test_how_it_failed_is_told(self):
        def raises(error):
            def act(*_):
                raise error

            return act

        async def late(request):
            raise TimeoutError("asleep")

        missing = FileNotFoundError(2, "No such file or directory", "/home/of/mine/key")
        for model, said in (
            (raises(TimeoutError("asleep")), "TimeoutError"), (late, "asleep"), (raises(RuntimeError("too many requests")), "too many requests"),
            (raises(ConnectionRefusedError(111, "refused")), "refused"), (raises(missing), "No such file or directory"),
            (raises(MembraneError("later", code="ETIMEDOUT")), "TimeoutError"), (raises(KeyError()), "KeyError"), (raises(ValueError("\ud800")), "ud800"),
            (Model(embed=lambda text, timeout_s: []), "completes no text"), (None, "No model"),
        ):  # fmt: skip
            with self.subTest(said=said), session(model=model) as of:
                result = of.run(CAUGHT.format(SEND))
                self.assertIn(said, result.text)
                for hidden in ("of/mine", "Traceback", __file__):
                    self.assertNotIn(hidden, json.dumps(result.report))

    def test_what_it_may_not_give_is_told_to_both(self):
        for model in (lambda request: 7, lambda request: None, lambda request: ModelAnswer(7), lambda request: ModelAnswer("a", -1),
                      lambda request: ModelAnswer("a", 1 << 80), Model(embed=lambda text, timeout_s: "ab"), Model(embed=lambda text, timeout_s: [float("nan")])):
            code = "membrane.ai.embed('a')" if isinstance(model, Model) else SEND
            with self.subTest(), session(model=model) as of, self.assertWarns(RuntimeWarning):
                self.assertEqual(of.run(code).outcome, "raised")
        with warnings.catch_warnings(), session(model=lambda request: "\ud800") as of:
            warnings.simplefilter("error")
            self.assertIn("surrogate", of.run(CAUGHT.format(SEND)).text)

    def test_the_end_of_a_turn_ends_a_coroutine(self):
        ended = []

        async def model(request):
            of.cancel()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append(request.prompt)
                raise

        with session(model=model) as of:
            self.assertEqual(of.run(SEND).outcome, "cancelled")
            self.assertEqual(ended, ["hello"])
            of._registry.agents.model = Model(echo)
            self.assertEqual(of.run(SEND).text, "'said hello'")
        with session(model=lambda request: asyncio.Event().wait(), limits={"wall": "300ms"}) as of:
            self.assertIn(of.run(SEND).outcome, ("timed_out", "raised"))

    def test_an_interrupt_ends_the_turn(self):
        def interrupted(request):
            raise KeyboardInterrupt

        with session(model=interrupted) as of:
            with self.assertRaises(KeyboardInterrupt):
                of.run(SEND)
            self.assertEqual(of.run("1 + 1").text, "2")

    def test_it_cannot_use_the_session_that_asks(self):
        codes = []

        def model(request):
            for act in (lambda: of.run("1"), of.dump, of.fork):
                with self.assertRaises(MembraneError) as caught:
                    act()
                codes.append(caught.exception.code)
            return "done"

        with session(model=model) as of:
            self.assertEqual(of.run(SEND).text, "'done'")
        self.assertEqual(codes, ["busy"] * 3)

    def test_other_threads_go_on_meanwhile(self):
        asked, answered = threading.Event(), threading.Event()

        def model(request):
            asked.set()
            self.assertTrue(answered.wait(60))
            return "yes"

        with session(model=model) as of, session() as other:
            turn = threading.Thread(target=lambda: results.append(of.run(SEND).text))
            results = []
            turn.start()
            self.assertTrue(asked.wait(60))
            self.assertEqual(other.run("1 + 1").text, "2")
            answered.set()
            turn.join()
        self.assertEqual(results, ["'yes'"])

    def test_functions_that_refer_to_their_session_go_with_it(self):
        held = []
        of = session(model=lambda request: held, approve=lambda question: held, ask=lambda question, timeout_s: held)
        held.append(of)
        gone = weakref.ref(of)
        del of, held
        gc.collect()
        self.assertIsNone(gone())

    def test_options_that_are_none_are_refused(self):
        for wrong in ({"approve": True}, {"model": "gpt"}, {"model": Model(complete=7)}, {"ask": "me"}, {"flows": []}, {"receipts": "/tmp"}):
            with self.assertRaises(TypeError, msg=wrong):
                session(**wrong)


class Hints(unittest.TestCase):
    def test_name_what_is_wrong_in_an_answer(self):
        for answer, said in ((ModelAnswer(5), "a ModelAnswer with text=5"), (ModelAnswer("x", tokens_out=-1), "with tokens_out=-1")):
            with self.assertWarnsRegex(RuntimeWarning, said), session(model=lambda request: answer) as of:
                self.assertIn(said, of.run(SEND).error.message)

    def test_say_what_to_give_the_session(self):
        policy = {"ai": {"embed": True}, "ask": True}
        for code, given, said in (
            (SEND, {"policy": None}, 'allow=["ai"], with model='),
            (ASK, {"policy": None, "ask": lambda question, timeout_s: ""}, 'allow=["ask"], with ask='),
            (SEND, {"policy": policy}, "model=, a function"),
            ("membrane.ai.embed('x')", {"policy": policy, "model": echo}, "model=Model(complete=…, embed=…)"),
            (ASK, {"policy": policy}, "ask=, a function"),
        ):
            with Session("js", **given) as of:
                self.assertIn(said, of.run(code).error.hint)
        with session(model=echo) as of:
            of.run(READ).check()
            self.assertIn("approve=, a function", of.run(SEND).error.hint)


class APerson(unittest.TestCase):
    def test_one_answers(self):
        heard = []
        with session(ask=lambda question, timeout_s: heard.append((question, timeout_s > 0)) or "1984") as of:
            self.assertEqual(of.run(ASK).text, "'1984'")
            self.assertEqual(heard, [("Which year?", True)])
        with session() as of:
            self.assertEqual(of.run(ASK).outcome, "raised")

    def test_through_load_and_pools(self):
        async def ask(question, timeout_s):
            return "1984"

        policy = {"ask": True, "ai": {}}
        with Session("js", policy=policy, isolated=ISOLATED) as of:
            of.run("var x = 1")
            blob = of.dump()
        with load(blob, policy=policy, isolated=ISOLATED, ask=ask, model=echo) as again:
            self.assertEqual(again.run(f"{ASK} + x + {SEND}").text, "'19841said hello'")
        with Session(policy=policy, isolated=ISOLATED) as of:
            blob = of.start("from membrane import agent\nf() + agent.ask('x')").dump()
        self.assertEqual(load(blob, policy=policy, ask=ask, isolated=ISOLATED, functions={"f": LATER}).resume("a").text, "'a1984'")

        async def main():
            loaded = await AsyncSession.load(blob, policy=policy, ask=ask, isolated=ISOLATED, functions={"f": LATER})
            self.assertEqual((await loaded.resume("b")).text, "'b1984'")
            async with AsyncPool("js", size=1, policy=policy, ask=ask, isolated=ISOLATED) as pool, pool.session() as of:
                self.assertEqual((await of.run(ASK)).text, "'1984'")

        asyncio.run(main())
        with Pool("js", size=1, policy=policy, ask=ask, isolated=ISOLATED) as pool, pool.session() as of:
            self.assertEqual(of.run(ASK).text, "'1984'")


class OfReceipts(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        self.key_file = self.folder / "keys.json"

    def receipts(self, directory="receipts"):
        return Receipts(self.folder / directory, key_file=self.key_file, makes_key=True)

    def verifies(self, receipt):
        """By a program that has nothing of Membrane."""
        own = json.loads(self.key_file.read_text())["keys"]
        public = {"membrane_public_keys": 1, "keys": [{name: value for name, value in key.items() if name != "private_key"} for key in own]}
        keys = self.folder / "published.json"
        keys.write_text(json.dumps(public))
        done = subprocess.run([sys.executable, "-B", TOOLS / "verify-receipt", "--keys", keys, receipt], capture_output=True, text=True, check=False)
        return done.returncode == 0, done.stdout + done.stderr

    def test_each_turn_is_sealed(self):
        receipts = self.receipts()
        with session(receipts=receipts, model=echo) as of:
            first = of.run("var x = 20; membrane.ai.complete('hello')")
            self.assertIsNone(first.unsealed)
            of.files.write("/given.txt", "22")
            second = of.run("x + Number(require('fs').readFileSync('/given.txt', 'utf8'))")
            self.assertEqual(second.text, "42")
            failed = of.run("throw new RangeError('no')")
        for result in (first, second, failed):
            self.assertEqual(result.receipt.parent, self.folder / "receipts")
            self.assertEqual(self.verifies(result.receipt)[0], True, self.verifies(result.receipt))
            private = result.receipt.with_name(result.receipt.name + ".private")
            self.assertEqual(private.stat().st_mode & 0o077, 0)
        text = first.receipt.read_bytes()
        self.assertNotIn(b"hello", text)
        first.receipt.write_bytes(text.replace(b'"ok"', b'"no"'))
        self.assertIn("has been changed", self.verifies(first.receipt)[1])
        self.assertIsNone(receipts.problem)

    def test_pools_seal_only_turns_of_their_users(self):
        with Pool("js", size=1, receipts=self.receipts(), isolated=ISOLATED) as pool, pool.session() as of:
            self.assertTrue(of.run("1").receipt.exists())
        self.assertEqual(len([each for each in (self.folder / "receipts").iterdir() if each.suffix != ".private"]), 1)

    def test_what_receipts_do_not_lead_to_is_refused(self):
        receipts = self.receipts()
        for more in ({"functions": {"f": len}}, {"inputs": {"n": 1}}, {"clock": "real"}, {"timezone": "+02:00"}, {"entropy": 7}):
            with self.assertRaises(MembraneError, msg=more) as caught:
                session(receipts=receipts, **more)
            self.assertEqual(caught.exception.code, "unsupported")
        with Session("python", receipts=receipts, isolated=ISOLATED) as of:
            of.run("x = 1").check()
            with self.assertRaises(MembraneError) as caught:
                of.fork()
            self.assertIn("sealed", str(caught.exception))
            self.assertFalse(of.check("x").ok)
            self.assertEqual(of.start("nobody_has_this()").outcome, "raised")
            self.assertEqual(of.run("x").text, "1")
            with self.assertRaisesRegex(TypeError, "not loaded"):
                load(of.dump(), receipts=receipts)

    def test_why_a_turn_is_not_sealed(self):
        receipts = self.receipts()
        with session(receipts=receipts) as of:
            of.run("var x = 40")
            (self.folder / "receipts").rename(self.folder / "elsewhere")
            (self.folder / "receipts").write_text("no directory")
            result = of.run("x + 2")
        self.assertEqual((result.text, result.receipt), ("42", None))
        self.assertIsInstance(result.unsealed, MembraneError)
        self.assertEqual(receipts.problem.message, result.unsealed.message)

    def test_none_are_opened_without_a_key(self):
        with self.assertRaises(MembraneError) as caught:
            Receipts(self.folder / "receipts", key_file=self.key_file)
        self.assertEqual(caught.exception.code, "not_found")
        for said in ("makes_key=True", "key_file=", str(self.key_file)):
            self.assertIn(said, str(caught.exception))
        with unittest.mock.patch.dict("os.environ", {"XDG_CONFIG_HOME": str(self.folder)}), self.assertRaisesRegex(MembraneError, "receipt-keys.json"):
            Receipts(self.folder / "receipts")


if __name__ == "__main__":
    unittest.main()
