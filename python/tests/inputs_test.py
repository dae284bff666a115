"""Input variables of one turn, of the installed package. Skipped where the language is not installed; in processes of their own also where
the machine lacks a wall."""

import asyncio
import datetime
import unittest

import membrane
from membrane import LATER, AsyncSession, Call, MembraneError, Object, Pool, Session, load


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
