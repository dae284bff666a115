import base64
import sys
import tempfile
from pathlib import Path

from tests.session_test import SessionTest

from membrane import _imports, _libraries

PNG = b"\x89PNG\r\n"
GIF = b"GIF89a"


def told(data):
    return {"base64": base64.b64encode(data).decode()}


class Display(SessionTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(sys.path.__setitem__, slice(None), list(sys.path))
        sys.path[:] = [entry for entry in sys.path if not entry.endswith("-packages")]  # this machine may have it there
        _libraries.install()
        for finder in (_imports._Finder, _imports._LastFinder):
            self.addCleanup(sys.meta_path.remove, finder)
        self.value("from IPython.display import *\nfrom IPython.display import display, HTML, Markdown, Image, JSON")
        self.addCleanup(lambda: [sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "IPython"])

    def shown(self, code):
        return self.run_turn(code)["value"]

    def test_things_are_shown_by_their_types(self):
        for code, name, mime, form in (
                ("HTML('<b>x</b>')", "HTML", "text/html", "<b>x</b>"), ("Markdown('# x')", "Markdown", "text/markdown", "# x"),
                ("Latex('$x$')", "Latex", "text/latex", "$x$"), ("Math('x^2')", "Math", "text/latex", "$\\displaystyle x^2$"),
                ("SVG('<svg/>')", "SVG", "image/svg+xml", "<svg/>"), ("JSON({'a': [1]})", "JSON", "application/json", {"a": [1]}),
                ("JSON('[2]')", "JSON", "application/json", [2]), ("Javascript('f()')", "Javascript", "application/javascript", "f()"),
                (f"Image({PNG!r})", "Image", "image/png", told(PNG)), (f"Image({GIF!r})", "Image", "image/gif", told(GIF)),
                (f"Image({PNG!r}, format='jpg')", "Image", "image/jpeg", told(PNG)),
                ("Image(url='https://h/a.png?b', width=3)", "Image", "text/html", '<img src="https://h/a.png?b" width="3"/>')):
            self.assertEqual(self.shown(code), {"text/plain": f"<IPython.core.display.{name} object>", mime: form}, code)
        self.assertEqual(self.shown("Pretty('as it is')"), {"text/plain": "as it is"})
        self.assertIn('src="https://h/?a=1"', self.shown("IFrame('https://h/', 10, 20, a=1)")["text/html"])

    def test_they_are_read_from_files(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.png").write_bytes(PNG)
            (Path(folder) / "a.html").write_text("<i>é</i>", encoding="utf-8")
            self.assertEqual(self.shown(f"Image('{folder}/a.png')")["image/png"], told(PNG))
            self.assertEqual(self.shown(f"Image(filename='{folder}/a.png')")["image/png"], told(PNG))
            self.assertEqual(self.shown(f"HTML(filename='{folder}/a.html')")["text/html"], "<i>é</i>")
        self.assertEqual(self.run_turn("Image('nothing.png')")["error"]["type"], "FileNotFoundError")
        self.assertEqual(self.run_turn("Image(b'', format='tiff')")["error"]["type"], "ValueError")
        self.assertEqual(self.run_turn("HTML(3)")["error"]["type"], "TypeError")

    def test_display_shows_several_in_their_order(self):
        displays = self.run_turn("display(1, HTML('<b>'))\nh = display('x', display_id=True)\nh.update('y')\nclear_output()\n"
                                 "display({'text/plain': 'p', 'text/html': 'h'}, raw=True)\ndisplay_markdown('# m', raw=True)")["displays"]
        self.assertEqual(displays, [{"text/plain": "1"}, {"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>"},
                                    {"text/plain": "'x'"}, {"text/plain": "'y'"}, {"text/plain": "p", "text/html": "h"},
                                    {"text/plain": "", "text/markdown": "# m"}])

    def test_the_package_itself_is_taken_where_it_is_and_shows_here(self):
        for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
            del sys.modules[name]
        with tempfile.TemporaryDirectory() as folder:
            core = Path(folder) / "IPython" / "core"
            core.mkdir(parents=True)
            (core.parent / "__init__.py").write_text("whole = True\n")
            (core.parent / "display.py").write_text("from IPython.core.display_functions import *\n")
            (core / "__init__.py").write_text("")
            (core / "display_functions.py").write_text("def display(*objs): print(*objs)\n")
            self.addCleanup(sys.path_importer_cache.pop, folder, None)
            displays = self.run_turn("import IPython\nfrom IPython.display import display\ndisplay(IPython.whole)", packages=folder)["displays"]
        self.assertEqual(displays, [{"text/plain": "True"}])

    def test_older_names_are_there_and_a_shell_is_not(self):
        self.assertEqual(self.value("from IPython.core.display import HTML as Old, display as shows\nOld is HTML, shows is display"), "(True, True)")
        self.assertEqual(self.value("import IPython\nIPython.get_ipython() is None, IPython.display.HTML is HTML"), "(True, True)")
        self.assertNotIn("missing", self.run_turn("from IPython.terminal import embed")["error"])
