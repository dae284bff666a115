import unittest

from support import load, project

floors = load("check-floors")
ROOMS = """
membrane_floor(base)
membrane_floor(engine DEPENDS base TEST_COST 10
  ROOMS memory code testing LIBRARIES base::other)
membrane_floor(cli DEPENDS engine)
"""
HOUSE = {"engine__memory__m": "", "engine__code__c": "", "engine__testing__t": ""}
CMAKE = """
membrane_floor(base)  # the ground
membrane_floor(wasm DEPENDS base)
membrane_floor(engine DEPENDS wasm LIBRARIES base::other)
membrane_floor(policy DEPENDS base)
"""


def problems(cmake: str = CMAKE, docs: dict[str, str] | None = None, **sources: str) -> list[str]:
    files = {name.replace("__", "/") + ".cc": text for name, text in sources.items()}
    with project({"CMakeLists.txt": cmake, **files, **(docs or {})}) as root:
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

    def test_face_is_among_the_floors_that_are_checked(self):
        allowed, _ = floors.read_floors((floors.Path(__file__).parents[2] / "CMakeLists.txt").read_text())
        self.assertIn("worker", allowed["face"])
        self.assertNotIn("agent", allowed["face"])


class Rooms(unittest.TestCase):
    def test_downward_and_own_includes_pass(self):
        self.assertEqual(problems(ROOMS, **HOUSE, engine__code__a='#include "engine/memory/m.h"\n#include "engine/code/c.h"\n'), [])

    def test_an_include_of_a_room_above_is_refused_with_its_place(self):
        found = problems(ROOMS, **HOUSE, engine__memory__a='\n#include "engine/code/c.h"\n')
        self.assertEqual(len(found), 1)
        self.assertIn("engine/memory/a.cc:2", found[0])
        self.assertIn("may only use: memory", found[0])

    def test_a_test_may_use_every_room(self):
        self.assertEqual(problems(ROOMS, **HOUSE, engine__memory__a_test='#include "engine/testing/t.h"\n'), [])

    def test_a_floor_above_may_use_every_room(self):
        self.assertEqual(problems(ROOMS, **HOUSE, cli__a='#include "engine/testing/t.h"\n'), [])

    def test_a_file_in_no_room_is_refused(self):
        self.assertEqual(len(problems(ROOMS, **HOUSE, engine__a="")), 1)
        self.assertEqual(len(problems(ROOMS, **HOUSE, engine__other__a="")), 1)

    def test_a_header_in_no_room_is_refused(self):
        self.assertEqual(len(problems(ROOMS, **HOUSE, engine__code__a='#include "engine/old.h"\n')), 1)

    def test_an_unknown_room_is_refused(self):
        self.assertEqual(len(problems(ROOMS, engine__memory__m="", engine__code__c="")), 1)

    def test_the_lists_of_rooms_have_each_room_once(self):
        page = ("base/   results\nengine/   runs\ncli/   the command\n"
                "engine/code/   code\nengine/code/   again\nengine/old/   gone\nengine/testing/   tests\n")
        self.assertEqual(problems(ROOMS, docs={"docs/rooms.md": page}, **HOUSE), [
            "docs/rooms.md: the rooms lack engine/memory/",
            "docs/rooms.md: engine/code/ is no room, or is listed twice",
            "docs/rooms.md: engine/code/ is no room, or is listed twice",
            "docs/rooms.md: engine/old/ is no room, or is listed twice"])


if __name__ == "__main__":
    unittest.main()
