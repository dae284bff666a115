"""The register of escapes (attacks/escapes.py): its size, that each attempt names a wall, and that each
wall is tested."""

import sys
import unittest

from support import TOOLS

sys.path.insert(0, str(TOOLS.parent / "attacks"))
import escapes  # noqa: E402

FEWEST = 150
FEWEST_OF = {"a hostile guest": 30, "a worker that runs an attacker's code": 60, "a hostile client of the service": 30,
             "another tenant": 20}


class Register(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = escapes.all_escapes()

    def test_there_are_enough(self):
        self.assertGreaterEqual(len(self.all), FEWEST)
        for attacker, fewest in FEWEST_OF.items():
            with self.subTest(attacker=attacker):
                self.assertGreaterEqual(sum(1 for each in self.all if each[0] == attacker), fewest)

    def test_each_has_a_name_of_its_own(self):
        self.assertEqual(len({(attacker, name) for attacker, name, _ in self.all}), len(self.all))

    def test_each_names_a_wall(self):
        self.assertEqual([each for each in self.all if each[2] not in escapes.all_walls()], [])

    def test_each_wall_is_tried(self):
        self.assertEqual(set(escapes.all_walls()) - {wall for _, _, wall in self.all}, set())

    def test_the_table_of_the_page_is_that_of_now(self):
        text = (TOOLS.parent / "attacks" / "README.md").read_text()
        self.assertEqual(text, escapes.readme(text), "attacks/escapes.py --update writes it")


if __name__ == "__main__":
    unittest.main()
