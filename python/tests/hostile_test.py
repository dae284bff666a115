"""Tests what a hostile program can ask of the embedder by requests that it forges, past the functions that it was given."""

import time
import unittest

import membrane
from membrane import MembraneError, Object, Session, TypeCheck

ASKS = """
import json
from membrane import _door
def ask(**call):
    return json.loads(_door.exchange(json.dumps({"functions": [call]}).encode()))["answers"][0]
def value_of(answer):
    return answer["value"] if "value" in answer else answer["error"]["message"]
"""
HIDDEN = "a secret"


def setUpModule():
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


class Account:
    def __init__(self):
        self.balance = 100

    def withdraw(self, amount):
        self.balance -= amount
        return self.balance


class Config(dict):
    def public(self):
        return self["name"]


class Forged(unittest.TestCase):
    def test_forged_names_pass_no_gate(self):
        account, seen = Account(), []

        def gate(call):
            seen.append(call.name)
            return call.name != "Account.withdraw"

        with Session(inputs={"account": Object(account, methods=["withdraw"])}, gate=gate) as session:
            session.run(ASKS).check()
            for name in ("Account.withdraw", "X.withdraw", "withdraw", "shop.price.withdraw", "shop.price\nX.withdraw", ".withdraw", ""):
                answer = session.run(f"try: answer = ask(call={name!r}, arguments=[10], object=1)\nexcept Exception as e: answer = {{}}\n'error' in answer or not answer")
                self.assertEqual(answer.text, "True", name)
            self.assertEqual(account.balance, 100)
            self.assertLessEqual(set(seen), {"Account.withdraw", "X.withdraw", "withdraw", "shop.price.withdraw"})

    def test_keywords_are_not_read_as_special_values(self):
        config = Object(Config(name="x", api_key=HIDDEN), methods=["public"])
        with Session(functions={"echo": lambda **named: sorted(named)}, inputs={"config": config}) as session:
            session.run(ASKS).check()
            for keywords in ({"$object": {"id": 1}}, {"$map": [["a", 1]]}, {"$bytes": "YQ=="}):
                said = session.run(f"value_of(ask(call='echo', keywords={keywords!r}))").text
                self.assertIn(next(iter(keywords)), said)
                self.assertNotIn("api_key", said)

    def test_objects_belong_to_their_session(self):
        vault = Object(Account(), methods=["withdraw"])
        with Session(functions={"vault": lambda: vault}, inputs={"own": Object(Account(), methods=["withdraw"])}) as session:
            session.run(ASKS).check()
            with session.fork() as branch:
                self.assertEqual(session.run("vault().withdraw(1)").text, "99")
                self.assertEqual(branch.run("own.withdraw(1)").text, "99")
                self.assertEqual(branch.run("'error' in ask(call='Account.withdraw', arguments=[1], object=2)").text, "True")
                self.assertEqual(branch.run("vault().withdraw(1)").text, "98")

    def test_heads_of_bytes(self):
        with Session() as session:
            blob = session.dump()
        magic = blob[: blob.index(b"{") - 4]
        for head in (b"[" * 200_000, b"{}", b"[1]", b'{"language": 7}', b"\xff"):
            with self.assertRaises(MembraneError):
                membrane.load(magic + len(head).to_bytes(4, "little") + head)


class StepsBack(unittest.TestCase):
    def test_a_large_result_changes_no_later_turn(self):
        for megabytes in (60, 90, 95):
            with Session(limits={"memory": "160 MiB", "fuel": "4e9"}) as session:
                session.run("""
keep = b'x' * (40 << 20)
from membrane import _session
large = b'{"session":"result","value":{"text/plain":"' + b'y' * (8 << 20) + b'"}}'
usual = _session._encode_result
def encode(report):
    _session._encode_result = usual
    return large
""").check()
                session.run("0").check()
                session.run("_session._encode_result = encode")
                session.run(f"z = bytes({megabytes} << 20)").check()
                self.assertEqual(session.run("while True: pass").outcome, "out_of_fuel")
                self.assertEqual(session.run("len(keep), len(z)").text, f"({40 << 20}, {megabytes << 20})")


class Slow(unittest.TestCase):
    def test_values_with_the_same_hash(self):
        with Session(functions={"count": len}, limits={"fuel": "1e12"}) as session:
            session.run(ASKS).check()
            for values in ('{"$set": [{"$integer": str(k * (2**61 - 1))} for k in range(%d)]}',
                           '{"$map": [[{"$integer": str(k * (2**61 - 1))}, 1] for k in range(%d)]}'):
                self.assertEqual(session.run(f"value_of(ask(call='count', arguments=[{values % 50}]))").text, "50")
                self.assertIn("same hash", session.run(f"value_of(ask(call='count', arguments=[{values % 5000}]))").text)

    def test_completions_for_a_check_are_bounded(self):
        try:
            session = Session(type_check=TypeCheck())
        except MembraneError as error:
            self.skipTest(str(error))
        with session:
            session.run("""
from membrane import _session
def complete(code):
    for i in range(3_000_000): pass
    return [code.strip() + "x" * 1000] * 150
_session._complete = complete
""").check()
            begun_at = time.monotonic()
            result = session.run("\n".join(f"{'n' * 300}{i}" for i in range(100)))
            self.assertEqual(result.outcome, "invalid")
            self.assertLess(time.monotonic() - begun_at, 20)


if __name__ == "__main__":
    unittest.main()
