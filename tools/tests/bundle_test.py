import hashlib
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import TOOLS, load

tool = load("bundle-typescript")


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
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "package.tgz"
            package.write_bytes(b"x")
            done = subprocess.run([sys.executable, TOOLS / "bundle-typescript", package, Path(folder) / "out.js"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(hashlib.sha256(b"x").hexdigest(), done.stderr)
            self.assertFalse((Path(folder) / "out.js").exists())


if __name__ == "__main__":
    unittest.main()
