import unittest

from support import load, project

specification = load("check-specification")


def problems(rows: str) -> list[str]:
    with project({
        "CMakeLists.txt": "membrane_floor(wasm)\nmembrane_source_check(docs tools/check-docs)\n",
        "wasm/a_test.cc": "TEST(Suite, Holds) {}\nTEST_F(Other, Holds) {}\n",
        "wasm/a_fuzz.cc": "",
        "docs/specification.md": "| promise | held by |\n| --- | --- |\n" + rows,
    }) as root:
        return specification.check(root)[0]


class Specification(unittest.TestCase):
    def test_tests_that_exist_pass(self):
        self.assertEqual(problems("| a | `Suite.Holds`, `Other.*` |\n| b | `a_fuzz` |\n"
                                  "| c | `links.*`, `source.docs`, `wasm/a_test.cc` |\n"), [])

    def test_a_test_that_is_gone_is_found(self):
        self.assertEqual(problems("| a | `Suite.Gone` |\n"), ["docs/specification.md:3: there is no test Suite.Gone"])

    def test_a_promise_without_a_test_is_found(self):
        self.assertEqual(problems("| a | by hope |\n"), ["docs/specification.md:3: no test holds: a"])

    def test_rules_of_forks_need_tests_too(self):
        with project({
            "CMakeLists.txt": "membrane_floor(wasm)\n",
            "docs/specification.md": "",
            "docs/fork-correctness.md": "| what | rule | test |\n| --- | --- | --- |\n| memory | its own | |\n",
        }) as root:
            self.assertEqual(specification.check(root)[0], ["docs/fork-correctness.md:3: no test holds: memory"])


if __name__ == "__main__":
    unittest.main()
