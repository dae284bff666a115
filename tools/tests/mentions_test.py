import unittest

from support import load, project

mentions = load("check-mentions")

FILES = {
    "CMakeLists.txt": "membrane_floor(host)\n",
    "host/broker.h": "// A broker.\n",
    "host/broker_test.cc": "TEST(Broker, DecidesBeforeItActs) {}\n",
    "host/kv/store.h": "",
    "tools/demo": "#!/bin/sh\n",
}


def problems(files: dict[str, str]) -> list[str]:
    with project(FILES | files) as root:
        return mentions.check(root)[0]


class Mentions(unittest.TestCase):
    def test_what_exists_passes(self):
        self.assertEqual(problems({
            "a.cc": "// See host/broker.h, kv/store.h, store.h, host/kv/, tools/demo, Broker.DecidesBeforeItActs, host_test.\n",
            "README.md": "`broker_test.cc`, `Broker.*`, [a](host/broker.h)\n",
        }), [])

    def test_a_file_that_is_not_there_is_found(self):
        self.assertEqual(problems({"a.cc": "int a;  // See socket.h and host/socket.py.\n"}),
                         ["a.cc:1: there is no file socket.h", "a.cc:1: there is no file host/socket.py"])

    def test_a_folder_that_is_not_there_is_found(self):
        self.assertEqual(problems({"README.md": "It is in `host/sql/`.\n"}), ["README.md:1: there is no folder host/sql/"])

    def test_a_tool_that_is_not_there_is_found(self):
        self.assertEqual(problems({"a.py": "# Run tools/show.\n"}), ["a.py:1: there is no file tools/show"])

    def test_a_case_that_its_suite_has_not_is_found(self):
        self.assertEqual(problems({"a.cc": "// Broker.Acts\n"}), ["a.cc:1: there is no test Broker.Acts"])

    def test_a_case_of_four_words_needs_its_suite(self):
        self.assertEqual(problems({"README.md": "`Gate.DecidesBeforeItActs`, `Intl.DisplayNames`\n"}),
                         ["README.md:1: there is no test Gate.DecidesBeforeItActs"])

    def test_a_program_that_is_not_there_is_found(self):
        self.assertEqual(problems({"a.cc": "// See gate_fuzz.\n"}), ["a.cc:1: there is no program gate_fuzz"])

    def test_a_file_name_of_a_reader_is_none_of_ours(self):
        self.assertEqual(problems({"README.md": "`membrane run chart.py data/log.csv` with `<vector.h>`\n"}), [])

    def test_code_is_not_read(self):
        self.assertEqual(problems({"a.cc": '#include "socket.h"\nauto a = "host/socket.h";\n',
                                   "a.py": 'a = "host/socket.h"\n', "run": '#!/bin/sh\ncat host/socket.h\n'}), [])

    def test_docstrings_are_read(self):
        self.assertEqual(problems({"a.py": '"""See\n\n    host/socket.h\n"""\n'}),
                         ["a.py:3: there is no file host/socket.h"])


if __name__ == "__main__":
    unittest.main()
