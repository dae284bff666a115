"""Tests results in notebooks with IPython's own formatter and the installed package."""

import html
import re
import unittest

import membrane
from membrane import MembraneError, Session

try:
    from IPython.core.formatters import DisplayFormatter
except ImportError:
    DisplayFormatter = None


def setUpModule():
    if DisplayFormatter is None:
        raise unittest.SkipTest("IPython is not installed")
    try:
        membrane.open_language("python")
    except MembraneError as error:
        raise unittest.SkipTest(str(error)) from None


class Notebooks(unittest.TestCase):
    def setUp(self):
        self.session = Session()
        self.addCleanup(self.session.close)

    def shown(self, code):
        data, _ = DisplayFormatter().format(self.session.run(code))
        return data

    def page(self, code):
        """What is in the frame."""
        frame = self.shown(code)["text/html"]
        found = re.fullmatch(r'<iframe sandbox referrerpolicy="no-referrer" style="[^"<>]*" srcdoc="([^"<>]*)"></iframe>', frame)
        self.assertIsNotNone(found, frame)
        return html.unescape(found[1])

    def test_text_is_text(self):
        self.assertEqual(self.shown("print('said')\n6 * 7"), {"text/plain": "said\n42"})
        self.assertIn("ZeroDivisionError: division by zero", self.shown("1 / 0")["text/plain"])
        self.assertIn("Result ok", self.shown("x = 1")["text/plain"])

    def test_terminals_get_no_control_characters(self):
        code = "class X:\n    def __repr__(self): return 'a\\x1b]52;c;eA==\\x07'\nprint('\\x1b[2J\\r')\nX()"
        result = self.session.run(code)
        for text in (self.shown(code)["text/plain"], repr(result)):
            self.assertNotRegex(text, r"[\x00-\x08\x0b-\x1f\x7f]")
            self.assertIn("\\x1b]52", text)

    def test_a_table(self):
        shown = self.shown("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
        self.assertIn("0  1", shown["text/plain"])
        self.assertIn("<td>2</td>", self.page("pd.DataFrame({'a': [1, 2]})"))

    def test_a_picture(self):
        code = "class P:\n    def _repr_png_(self): return b'\\x89PNG'\nP()"
        self.assertEqual(self.shown(code)["image/png"], "iVBORw==")
        self.assertIn('<img src="data:image/png;base64,iVBORw==">', self.page("print('a<b')\nP()"))
        self.assertIn("<pre>a&lt;b\n</pre>", self.page("print('a<b')\nP()"))

    def test_displays_of_a_program_reach_nothing(self):
        parts = ["<script>alert(1)</script>", "</body></iframe><script>", '"><img src=x onerror=alert(1)>', "<LINK rel=preconnect href=//x>",
                 "<meta http-equiv=refresh>", "<iframe/src=x>", "<base target=_top>", "</script >"]
        page = self.page(f"class H:\n    def _repr_html_(self): return {''.join(parts)!r}\nH()")
        self.assertTrue(page.startswith('<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'))
        self.assertEqual(re.findall(r"(?i)</?(?:script|link|meta|iframe|base)\b", page), ["<meta"] * 2)
        drawn = self.page("class S:\n    def _repr_svg_(self): return '<svg onload=\"alert(1)\"></svg>'\nS()")
        self.assertNotIn("<svg", drawn)
        self.assertIn("data:image/svg+xml;base64,", drawn)
        scripted = self.shown("class J:\n    def _repr_javascript_(self): return 'alert(1)'\nJ()")
        self.assertEqual(set(scripted), {"text/plain"})

    def test_reprs_are_short(self):
        result = self.session.run("print('x' * 10_000)\n'y' * 10_000")
        self.assertLess(len(repr(result)), 800)
        self.assertIn("Result ok, 'yyy", repr(result))
        self.assertIn("error=ZeroDivisionError: division by zero", repr(self.session.run("1 / 0")))


if __name__ == "__main__":
    unittest.main()
