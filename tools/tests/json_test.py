import unittest

from support import load, project

checker = load("check-json")
CMAKE = "membrane_floor(base)\nmembrane_floor(host DEPENDS base)\n"


def problems(**sources: str) -> list[str]:
    files = {name.replace("__", "/") + ".cc": text for name, text in sources.items()}
    with project({"CMakeLists.txt": CMAKE, **files}) as root:
        return checker.check(root)


class Json(unittest.TestCase):
    def test_each_of_the_librarys_readers_is_refused_with_its_place(self):
        for call in ("json::parse(text, nullptr, false)", "Json::parse(text)", "nlohmann::ordered_json::parse(text)",
                     "nlohmann::json::sax_parse(text, &visitor)", "json::accept(text)", "json :: parse(text)",
                     "nlohmann::basic_json<std::map>::parse(text)", "json::from_cbor(bytes)", 'auto v = "[1]"_json;'):
            found = problems(host__door=f"int a;\n{call}\n")
            self.assertEqual(len(found), 1, call)
            self.assertIn("host/door.cc:2", found[0])

    def test_the_one_reader_and_tests_may_call_them(self):
        call = "json::parse(text)\n"
        self.assertEqual(problems(base__json=call, host__door_test=call, host__door_fuzz=call, host__door_bench=call,
                                  host__door_testing=call), [])

    def test_other_parsers_and_comments_pass(self):
        self.assertEqual(problems(host__a="Recording::parse(text)\n// json::parse is not called\nread_json(text)\n"), [])

    def test_no_floors_is_a_failure(self):
        with project({"CMakeLists.txt": "# membrane_floor(base)\n"}) as root:
            self.assertEqual(len(checker.check(root)), 1)


if __name__ == "__main__":
    unittest.main()
