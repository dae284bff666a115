import unittest

from support import load, project

floors = load("check-floors")
CMAKE = """
membrane_floor(base)  # the ground
membrane_floor(wasm DEPENDS base)
membrane_floor(engine DEPENDS wasm LIBRARIES base::other)
membrane_floor(policy DEPENDS base)
"""


def problems(cmake: str = CMAKE, **sources: str) -> list[str]:
    files = {name.replace("__", "/") + ".cc": text for name, text in sources.items()}
    with project({"CMakeLists.txt": cmake, **files}) as root:
        return floors.check(root)


class Floors(unittest.TestCase):
    def test_downward_and_own_includes_pass(self):
        self.assertEqual(problems(engine__a='#include "engine/b.h"\n#include "wasm/c.h"\n#include "base/d.h"\n'), [])

    def test_an_include_that_climbs_is_refused_with_its_place(self):
        found = problems(wasm__a='#include <vector>\n#include "engine/b.h"\n')
        self.assertEqual(len(found), 1)
        self.assertIn("wasm/a.cc:2", found[0])
        self.assertIn("base, wasm", found[0])

    def test_a_floor_beside_is_refused(self):
        self.assertEqual(len(problems(policy__a='#include "wasm/b.h"\n')), 1)

    def test_a_path_with_dots_is_refused(self):
        self.assertEqual(len(problems(base__a='#include "../wasm/b.h"\n')), 1)

    def test_a_floor_that_depends_on_a_later_one_is_refused(self):
        self.assertEqual(len(problems("membrane_floor(base DEPENDS wasm)\nmembrane_floor(wasm)\n")), 1)

    def test_no_floors_is_a_failure(self):
        self.assertEqual(len(problems("# membrane_floor(base)\n")), 1)

    def test_the_list_of_the_architecture_has_each_floor_once(self):
        page = "```text\nwasm/   modules\nbase/   results\nwasm/   again\nnet/    none\ninclude/membrane/   the interface\n```\n"
        with project({"CMakeLists.txt": "membrane_floor(base)\nmembrane_floor(wasm)\nmembrane_floor(face)\n",
                      "docs/architecture.md": page}) as root:
            self.assertEqual(floors.check(root), [
                "docs/architecture.md: the floors lack face/",
                "docs/architecture.md: wasm/ is no floor, or is listed twice",
                "docs/architecture.md: wasm/ is no floor, or is listed twice",
                "docs/architecture.md: net/ is no floor, or is listed twice"])


if __name__ == "__main__":
    unittest.main()
