import hashlib
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import TOOLS, load

tool = load("bundle-typescript")
zones = load("bundle-time-zones")


def refuses_another_package(test, tool_name):
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "package"
        package.write_bytes(b"x")
        done = subprocess.run([sys.executable, TOOLS / tool_name, package, Path(folder) / "out.js"],
                              capture_output=True, text=True)
        test.assertEqual(done.returncode, 1)
        test.assertIn(hashlib.sha256(b"x").hexdigest(), done.stderr)
        test.assertFalse((Path(folder) / "out.js").exists())


class BundleTypescript(unittest.TestCase):
    files = {
        tool.INDEX: "var a = require('./parser/a'); var o = require('lines-and-columns'); exports.t = 'require(\\'x\\')'",
        "package/dist/parser/a.js": "var b = require('../b'); var text = \"require('./nowhere')\"",
        "package/dist/b.js": "require('./parser')",
        "package/dist/parser/index.js": "",
        "package/dist/cli.js": "require('commander')",
        "package/LICENSE": "Whoever",
    }

    def test_only_reached_members_exist_with_whole_names(self):
        made = tool.modules_of(self.files)
        self.assertEqual(sorted(made), ["package/dist/b.js", tool.INDEX, "package/dist/parser/a.js", "package/dist/parser/index.js"])
        self.assertIn("load('package/dist/parser/a.js')", made[tool.INDEX])
        self.assertIn("outside['lines-and-columns']", made[tool.INDEX])
        self.assertIn("load('package/dist/parser/index.js')", made["package/dist/b.js"])
        self.assertIn("require('./nowhere')", made["package/dist/parser/a.js"], "a text is left alone")

    def test_the_license_comes_first(self):
        self.assertTrue(tool.bundle(self.files).startswith("/*\nWhoever\n*/\n"))

    def test_another_package_is_refused(self):
        refuses_another_package(self, "bundle-typescript")


class BundleTimeZones(unittest.TestCase):
    folder = zones.FOLDER
    files = {
        "tzdata/zones": b"Europe/Berlin\nEurope/Oslo\nFactory\nEtc/UTC\n",
        folder + "Europe/Berlin": b"TZif of Berlin",
        folder + "Europe/Oslo": b"TZif of Berlin",
        folder + "Etc/UTC": b"TZif of UTC",
        folder + "Factory": b"TZif of nowhere",
        folder + "tzdata.zi": b"# version 2026e\n# more\n",
        folder + "zone.tab": b"# a comment\nDE\t+5230+01322\tEurope/Berlin\tmost of Germany\n",
        "tzdata-2026.5.dist-info/licenses/LICENSE": b"Whoever",
    }

    def test_equal_rules_are_there_once(self):
        self.assertEqual(zones.database_of(self.files), {
            "version": "2026e",
            "rules": ["VFppZiBvZiBVVEM=", "VFppZiBvZiBCZXJsaW4="],
            "names": {"Etc/UTC": 0, "Europe/Berlin": 1, "Europe/Oslo": 1},
            "places": ["Europe/Berlin"],
        })

    def test_the_license_comes_first(self):
        self.assertTrue(zones.bundle(self.files).startswith("/*\nWhoever\n*/\nglobalThis.__membrane_time_zones = {"))

    def test_another_package_is_refused(self):
        refuses_another_package(self, "bundle-time-zones")


if __name__ == "__main__":
    unittest.main()
