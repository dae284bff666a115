import subprocess
import sys
import unittest

from support import TOOLS, load, project

docs = load("check-docs")


def problems(text: str) -> list[str]:
    with project({
        "Makefile": "build:\nbench-engine: x\n",
        "README.md": text,
        "docs/README.md": "[a](a.md)",
        "docs/a.md": "# A heading, with `code`\n",
    }) as root:
        return docs.check(root)[0]


class Docs(unittest.TestCase):
    def test_good_links_and_targets_pass(self):
        self.assertEqual(problems("[a](docs/a.md#a-heading-with-code) [w](https://example.org) `make bench-engine`"), [])

    def test_a_link_to_nowhere_is_found(self):
        self.assertEqual(problems("[a](docs/b.md)"), ["README.md: the link docs/b.md leads nowhere"])

    def test_a_fragment_without_its_heading_is_found(self):
        self.assertEqual(problems("[a](docs/a.md#b)"), ["README.md: docs/a.md#b: there is no such heading"])

    def test_an_unknown_target_of_make_is_found(self):
        self.assertEqual(problems("```\nmake everything\n```"), ["README.md: there is no `make everything`"])

    def test_code_is_not_read_for_links(self):
        self.assertEqual(problems("`[a](b.md)`"), [])

    def test_shown_code_is_the_file_that_is_linked_before_it(self):
        with project({"Makefile": "", "docs/README.md": "", "a.c": "int a;\n",
                      "README.md": "[a](a.c)\n```c\nint a;\n```\n"}) as root:
            self.assertEqual(docs.check(root)[0], [])
            (root / "a.c").write_text("int b;\n")
            self.assertEqual(docs.check(root)[0], ["README.md: the code that begins with 'int a;' is not a.c"])

    def test_a_page_that_the_index_does_not_list_is_found(self):
        with project({"Makefile": "", "docs/README.md": "", "docs/lost.md": ""}) as root:
            self.assertEqual(docs.check(root)[0], ["docs/lost.md: docs/README.md does not list it"])

    def test_a_folder_has_an_index_of_its_own(self):
        with project({"Makefile": "", "docs/README.md": "[d](d/README.md)", "docs/d/README.md": "[a](a.md)",
                      "docs/d/a.md": "", "docs/d/lost.md": ""}) as root:
            self.assertEqual(docs.check(root)[0], ["docs/d/lost.md: docs/d/README.md does not list it"])


class Help(unittest.TestCase):
    def test_every_check_says_what_it_checks(self):
        for name in ("check-docs", "check-floors", "check-mentions", "check-specification"):
            done = subprocess.run([sys.executable, TOOLS / name, "--help"], capture_output=True, text=True, check=True)
            self.assertIn(f"tools/{name} [ROOT]", done.stdout)


if __name__ == "__main__":
    unittest.main()
