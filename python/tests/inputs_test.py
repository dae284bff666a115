"""Input variables of one turn, of the installed package. Skipped where the language is not installed; in processes of their own also where
the machine lacks a wall."""

import asyncio
import datetime
import importlib.util
import pathlib
import unittest

import membrane
from membrane import LATER, AsyncSession, Call, MembraneError, Object, Pool, Session, load

numpy, pandas = (importlib.import_module(name) if importlib.util.find_spec(name) else None for name in ("numpy", "pandas"))


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


class Inputs(unittest.TestCase):
    isolated = False

    @classmethod
    def setUpClass(cls):
        try:
            Session(isolated=cls.isolated).close()
        except MembraneError as error:
            if error.code == "not_found":
                raise
            raise unittest.SkipTest(str(error)) from None

    def session(self, **options):
        made = Session(isolated=self.isolated, **options)
        self.addCleanup(made.close)
        return made

    def test_are_variables_that_stay(self):
        session = self.session(inputs={"given": 1})
        self.assertEqual(session.run("n + m", inputs={"n": 20, "m": 22}).text, "42")
        self.assertEqual(session.run("n = n + 1; n").text, "21")
        self.assertEqual(session.run("n, given", inputs={"n": "again", "given": 2}).text, "('again', 2)")
        self.assertEqual(session.run("n, given").text, "('again', 2)")

    def test_have_the_values_of_the_sessions_inputs(self):
        values = {"b": [1, (2, b"3")], "a": {4, 5}, "when": datetime.date(2026, 1, 2), "many": 1 << 70, "none": None, 7: 0.5}
        back = []
        session = self.session(functions={"give": back.append})
        self.assertEqual(session.run("give(values); ' '.join(map(str, values))", inputs={"values": values}).text, "'b a when many none 7'")
        self.assertEqual(back, [values])

    def test_may_be_objects(self):
        class Account:
            balance = 5

        first, second = Account(), Account()
        second.balance = 7
        given = Object(first, attributes=["balance"])
        session = self.session(inputs={"first": given})
        code = "second.balance + first.balance, second == first, again == first"
        inputs = {"second": Object(second, attributes=["balance"]), "again": given}
        self.assertEqual(session.run(code, inputs=inputs).text, "(12, False, True)")

    def test_of_a_turn_that_fails_are_undone(self):
        session = self.session(limits={"fuel": "1e8"})
        session.run("t = 0", inputs={"n": 1}).check()
        for number in (10, 11, 12):
            session.run("t += n", inputs={"n": number}).check()
        self.assertEqual(session.run("while True: pass", inputs={"n": 2, "m": 3}).outcome, "out_of_fuel")
        self.assertEqual(session.run("t, n, 'm' in globals()").text, "(33, 12, False)")
        self.assertEqual(session.run("1 / 0", inputs={"n": 5}).outcome, "raised")
        self.assertEqual(session.run("n").text, "5", "an error of the program undoes nothing")

    def test_are_in_the_bytes_and_in_forks(self):
        session = self.session()
        session.run("m = n + 1", inputs={"n": 1}).check()
        with session.fork() as branch, load(session.dump(), isolated=self.isolated) as again:
            for each in (branch, again):
                self.assertEqual(each.run("n, m").text, "(1, 2)")
                self.assertEqual(each.run("n", inputs={"n": 3}).text, "3")
        self.assertEqual(session.run("n").text, "1")

    def test_of_a_turn_that_waits(self):
        session = self.session(functions={"approve": LATER})
        call = session.start("approve(n) + n", inputs={"n": 5})
        self.assertIsInstance(call, Call)
        self.assertEqual(call.args, (5,))
        again = load(session.dump(), functions={"approve": LATER}, isolated=self.isolated)
        self.addCleanup(again.session.close)
        self.assertEqual(again.resume(1).text, "6")
        call.abandon()
        self.assertEqual(session.run("'n' in globals()").text, "False")

    def test_names_that_are_none(self):
        session = self.session()
        for name in ("", "two words", "1st", "naïve", "class"):
            result = session.run("n", inputs={"n": 1, name: 1})
            self.assertEqual((result.outcome, result.fuel), ("invalid", 0), result)
            self.assertIn(name, str(result.error))
            self.assertTrue(result.error.hint, result.error)
        with self.assertRaisesRegex(TypeError, "the name of an input is text, not 1"):
            session.run("n", inputs={1: 1})
        with self.assertRaisesRegex(TypeError, "inputs are a dict"):
            session.run("n", inputs=["n"])
        self.assertEqual(session.run("'n' in globals()").text, "False")

    def test_values_that_cannot_pass(self):
        session = self.session()
        with self.assertRaisesRegex(TypeError, "the input x is an object, which cannot pass"):
            session.run("x", inputs={"x": object()})
        with self.assertRaisesRegex(ValueError, "surrogate"):
            session.run("x", inputs={"x": "\udc80"})

        class Stranger:
            pass

        result = session.run("1", inputs={"x": Object(Stranger())})
        self.assertIn("Stranger, which was not described", str(result.error))
        large = session.run("1", inputs={"x": "x" * (9 << 20), "y": "y" * (9 << 20)})
        self.assertEqual(large.outcome, "invalid")
        self.assertIn("bytes, and may have", str(large.error))
        self.assertEqual(session.run("1 + 1").text, "2")

    def test_values_that_are_too_deep_or_long_are_named(self):
        session = self.session(functions={"give": lambda: cyclic})
        cyclic, deep, wide = [], 1, ()
        cyclic.append(cyclic)
        for _ in range(500):
            deep = [deep]
        for _ in range(101):
            wide = (wide,)
        said = "the input x is a value that cannot pass: it holds itself, or is nested"
        for value in (cyclic, {"a": [1, cyclic]}, [pathlib.Path("/"), cyclic], deep, deep[0][0], wide):
            with self.assertRaisesRegex(ValueError, said):
                session.run("x", inputs={"x": value})
        with self.assertRaisesRegex(ValueError, "the input x is a value that cannot pass: Exceeds the limit"):
            session.run("x", inputs={"x": [10**5000]})
        with self.assertRaisesRegex(ValueError, "the input x is a value with half of a surrogate pair"):
            session.run("x", inputs={"x": ["\udc80"]})
        self.assertIn("give() returned a value that cannot pass: it holds itself", str(session.run("give()").error))
        deepest = 1
        for _ in range(199):
            deepest = [deepest]
        self.assertTrue(session.run("x", inputs={"x": deepest}).ok)

    def test_objects_of_turns_are_given_again(self):
        class Account:
            def __init__(self, balance):
                self.balance = balance

        def account(balance):
            return Object(Account(balance), attributes=["balance"])

        session = self.session(inputs={"first": account(1)}, functions={"made": lambda: account(100)})
        session.check("seen", inputs={"seen": account(0)})
        self.assertTrue(session.run("other = made()").ok)
        self.assertTrue(session.run("late", inputs={"late": account(2)}).ok)
        blob = session.dump()
        balances = "[first.balance, late.balance]"
        with load(blob, inputs={"first": account(3), "late": account(4)}, isolated=self.isolated) as again:
            self.assertEqual(again.run(balances).text, "[3, 4]")
            self.assertIn("was dumped in", str(again.run("other.balance").error))
            self.assertTrue(again.run("later", inputs={"later": account(5)}).ok)
            blob_of_again = again.dump()
        given = {name: account(number) for number, name in enumerate(("first", "late", "later"), 6)}
        with load(blob_of_again, inputs=given, isolated=self.isolated) as again:
            self.assertEqual(again.run(f"{balances} + [later.balance]").text, "[6, 7, 8]")
        with load(blob, inputs={"first": account(3)}, isolated=self.isolated) as again:
            self.assertIn("of the session or of a turn", str(again.run("late.balance").error))
        with self.assertRaisesRegex(ValueError, "the Objects Account, Account, Account, and the session's had Account, Account: "):
            load(blob, inputs=given)

    def test_a_time_that_is_none(self):
        class NaT(datetime.datetime):  # as that of pandas, which is no time and is not like itself
            def __eq__(self, other):
                return False

            def isoformat(self):
                return "NaT"

        session = self.session(functions={"give": lambda: [nat]})
        nat = NaT(1970, 1, 1)
        self.assertEqual(session.run("x, give()", inputs={"x": [{"at": nat}]}).text, "([{'at': None}], [None])")

    def test_sets_in_sets(self):
        heard = []
        session = self.session(functions={"hear": heard.append})
        value = {frozenset({1}), (frozenset({2}), 3)}
        self.assertTrue(session.run("hear({frozenset({1}), (frozenset({2}), 3)}); hear({frozenset({1}): 2})").ok)
        self.assertEqual(heard, [value, {frozenset({1}): 2}])

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_of_numpy(self):
        session = self.session()
        times = numpy.array(["2026-01-01", "NaT"], dtype="datetime64[ns]")
        self.assertEqual(session.run("x", inputs={"x": times}).text, "[datetime.datetime(2026, 1, 1, 0, 0), None]")
        self.assertEqual(session.run("x", inputs={"x": times[0]}).text, "datetime.datetime(2026, 1, 1, 0, 0)")
        self.assertEqual(session.run("x", inputs={"x": numpy.timedelta64(5000, "ns")}).text, "datetime.timedelta(microseconds=5)")
        for value, said in ((times + numpy.timedelta64(1, "ns"), "finer than a microsecond"), (numpy.datetime64("99999"), "out of the range"),
                            ({"a": numpy.longdouble("1.1")}, "a dict with a longdouble in it"), (numpy.array([1j]), "with a complex in it")):  # fmt: skip
            with self.assertRaisesRegex(TypeError, f"the input x is .*{said}"):
                session.run("x", inputs={"x": value})

    @unittest.skipIf(pandas is None, "pandas is not installed")
    def test_of_pandas(self):
        rows = pandas.DataFrame({"at": pandas.to_datetime(["2026-01-01", None]), "n": pandas.array([1, None])}).to_dict("records")
        text = self.session().run("x", inputs={"x": rows}).text
        self.assertEqual(text, "[{'at': datetime.datetime(2026, 1, 1, 0, 0), 'n': 1}, {'at': None, 'n': None}]")

    def test_a_script_has_none(self):
        session = self.session()
        result = session.run("print(1)", script=True, inputs={"x": 1})
        self.assertEqual(result.outcome, "invalid")
        self.assertIn("a script is a whole program", str(result.error))
        self.assertTrue(session.check("x", inputs={"x": 1}).ok)
        self.assertEqual(session.run("'x' in globals()").text, "False")

    def test_in_asyncio(self):
        async def whole():
            async with AsyncSession(functions={"approve": LATER}, isolated=self.isolated) as session:
                one = (await session.run("n", inputs={"n": 1})).text
                call = await session.start("approve(n)", inputs={"n": 2})
                return one, call.args, (await call.resume(0)).text

        self.assertEqual(asyncio.run(whole()), ("1", (2,), "0"))


class InputsOfIsolatedSessions(Inputs):
    isolated = True


class InputsElsewhere(unittest.TestCase):
    def test_in_a_pool(self):
        with Pool(size=1) as pool, pool.session() as session:
            self.assertEqual(session.run("n", inputs={"n": 1}).text, "1")

    def test_in_javascript(self):
        try:
            session = Session("js")
        except MembraneError as error:
            raise unittest.SkipTest(str(error)) from None
        with session:
            self.assertEqual(session.run("n.a + Object.keys(n).join('')", inputs={"n": {"b": 1, "a": 2}}).text, "'2ba'")
            self.assertEqual(session.run("n = 5; const c = 1; n", inputs={"c": 3}).text, "5")
            self.assertEqual(session.run("c", inputs={"c": 3}).text, "3")
            self.assertIn("keyword", str(session.run("1", inputs={"const": 1}).error))
            self.assertTrue(session.run("1", inputs={"lambda": 1}).ok)


if __name__ == "__main__":
    unittest.main()
