import unittest

from support import load, project

grouping = load("group-sources")


def own(code: str) -> str:
    return "namespace membrane {\nnamespace {\n" + code + "\n}  // namespace\n}\n"


def groups(files: dict[str, str]) -> list[list[str]]:
    """The names of the .cc files that are compiled together."""
    with project(files) as root:
        grouping.ROOT = root
        found = grouping.groups_of([str(root / name) for name in files if name.endswith(".cc")])
        return [[file.removeprefix(f"{root}/") for file in group.files] for group in found]


class Grouping(unittest.TestCase):
    def test_files_without_a_name_in_common_are_together(self):
        self.assertEqual(groups({"a.cc": own("int first() { int mine = 1; return mine; }"),
                                 "b.cc": own("int second() { int mine = 2; return mine; }")}), [["a.cc", "b.cc"]])

    def test_a_name_that_two_declare_keeps_them_apart(self):
        for declared in ("constexpr int kMost = 1;", "int most(int x) { return x; }", "struct Most { int x; };", "using Most = int;",
                         "enum class Most { kOne };", "const int kTable[] = {1};"):
            self.assertEqual(groups({"a.cc": own(declared), "b.cc": own(declared)}), [["a.cc"], ["b.cc"]], declared)

    def test_a_name_that_another_only_uses_keeps_them_apart(self):
        self.assertEqual(len(groups({"a.cc": own("int text(int x) { return x; }"), "b.cc": "int f() { return text(1); }"})), 2)

    def test_a_member_is_not_a_name_of_the_file(self):
        self.assertEqual(len(groups({"a.cc": own("int size() { return 1; }"), "b.cc": "int f(A a) { return a.size(); }"})), 1)

    def test_a_type_or_constant_of_a_header_keeps_them_apart(self):
        headers = {"x.h": '#include "y.h"\n', "y.h": "struct Target {};\nconstexpr int kMost = 3;\n"}
        for declared in ("struct Target { int x; };", "constexpr int kMost = 2;"):
            found = groups({**headers, "a.cc": own(declared), "b.cc": '#include "x.h"\nint f();\n'})
            self.assertEqual(found, [["a.cc"], ["b.cc"]], declared)

    def test_macros_aliases_and_static_functions_are_names_too(self):
        for declared in ("#define MOST 1\n", "using Json = int;\n", "static int most(int x) {\n  return x;\n}\n"):
            self.assertEqual(len(groups({"a.cc": declared, "b.cc": declared})), 2, declared)

    def test_comments_and_strings_do_not_count(self):
        self.assertEqual(len(groups({"a.cc": own("int first() { return 1; }"),
                                     "b.cc": 'const char* x() { return "first"; }  // first\n'})), 1)

    def test_a_file_that_uses_a_whole_namespace_stays_alone(self):
        self.assertEqual(groups({"a.cc": "using namespace std;\n", "b.cc": "int b();\n", "c.cc": "int c();\n"}),
                         [["a.cc"], ["b.cc", "c.cc"]])

    def test_a_group_has_an_end(self):
        found = groups({f"a{i}.cc": f"int a{i}();\n" for i in range(2 * grouping.MOST + 1)})
        self.assertEqual([len(group) for group in found], [grouping.MOST, grouping.MOST, 1])


if __name__ == "__main__":
    unittest.main()
