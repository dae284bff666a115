"""display(), and things that are shown as what they are: HTML, Markdown, Image, JSON and the like, by their MIME types."""

import html
import json
import os

from membrane import _display

__all__ = ["DisplayHandle", "DisplayObject", "HTML", "IFrame", "Image", "JSON", "Javascript", "Latex", "Markdown", "Math", "Pretty", "SVG",
           "TextDisplayObject", "clear_output", "display", "display_html", "display_javascript", "display_jpeg", "display_json",
           "display_latex", "display_markdown", "display_png", "display_pretty", "display_svg", "update_display"]


class _Bundle:
    """A bundle of MIME types as it was given."""

    def __init__(self, forms):
        self._forms = forms

    def __repr__(self):
        return str(self._forms.get("text/plain", ""))

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self._forms


class DisplayHandle:
    """Shows an object again. What was shown stays: displays of a turn are reported when it ends."""

    def __init__(self, display_id=None):
        self.display_id = display_id or os.urandom(16).hex()

    def display(self, obj, **options):
        display(obj, **options)

    update = display


def display(*objs, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, clear=False, **_):
    """Shows values beside the result of the cell; with `raw`, dicts of MIME types."""
    _display.display(*(map(_Bundle, objs) if raw else objs))
    if display_id:
        return DisplayHandle(None if display_id is True else display_id)
    return None


def update_display(obj, *, display_id, **options):
    display(obj, **options)


def clear_output(wait=False):
    """Does nothing: displays and output are reported as they came."""


class DisplayObject:
    """Has its data, or reads it: from a file of the program, or from a URL, by the grants for http."""

    _mode = "r"
    metadata = None

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if isinstance(data, os.PathLike):
            data = str(data)
        if url is None and filename is None and isinstance(data, str) and self._is_place(data):
            url, filename, data = (data, None, None) if data.startswith(("http://", "https://")) else (None, data, None)
        self.data, self.url, self.filename = data, url, None if filename is None else os.fspath(filename)
        self.metadata = metadata or self.metadata or {}
        if self.data is None:
            self.reload()

    @staticmethod
    def _is_place(data):
        return data.startswith(("http://", "https://"))

    def reload(self):
        if self.filename is not None:
            with open(self.filename, self._mode, encoding=None if "b" in self._mode else "utf-8") as file:
                self.data = file.read()
        elif self.url is not None:
            import urllib.request
            with urllib.request.urlopen(self.url) as answer:
                self.data = answer.read()
            if "b" not in self._mode:
                self.data = self.data.decode(answer.headers.get_content_charset("utf-8"), "replace")

    def __repr__(self):
        return f"<IPython.core.display.{type(self).__name__} object>"


class TextDisplayObject(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if data is not None and not isinstance(data, (str, os.PathLike)):
            raise TypeError(f"{type(self).__name__} expects text, not {data!r}")
        super().__init__(data, url, filename, metadata)


class Pretty(TextDisplayObject):
    def __repr__(self):
        return str(self.data)


class HTML(TextDisplayObject):
    def _repr_html_(self):
        return self.data

    def __html__(self):
        return self.data


class Markdown(TextDisplayObject):
    def _repr_markdown_(self):
        return self.data


class Latex(TextDisplayObject):
    def _repr_latex_(self):
        return self.data


class Math(TextDisplayObject):
    def _repr_latex_(self):
        return f"$\\displaystyle {self.data.strip('$')}$"


class SVG(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, metadata=None):
        super().__init__(data.decode() if isinstance(data, bytes) else data, url, filename, metadata)

    def _repr_svg_(self):
        return self.data


class JSON(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root="root", **_):
        super().__init__(data, url, filename, {"expanded": expanded, "root": root, **(metadata or {})})
        if isinstance(self.data, str):
            self.data = json.loads(self.data)

    def _repr_json_(self):
        return self.data


class Javascript(TextDisplayObject):
    def __init__(self, data=None, url=None, filename=None, lib=None, css=None):
        super().__init__(data, url, filename)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/javascript": self.data}


_KINDS = {b"\x89PNG": "png", b"\xff\xd8": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
_NAMES = {"jpg": "jpeg", "jpe": "jpeg"}


class Image(DisplayObject):
    """Of bytes, of a file, or of a URL, which is shown as a link unless `embed` says that it is read."""

    _mode = "rb"

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, retina=False,
                 unconfined=False, metadata=None, alt=None):
        is_link = url is not None or isinstance(data, str) and data.startswith(("http://", "https://"))
        self.embed = embed if embed is not None else not is_link
        self.width, self.height, self.alt, self.format = width, height, alt, format
        super().__init__(data, url, filename, metadata)
        if self.format is None:
            self.format = self._kind()
        self.format = _NAMES.get(self.format.lower(), self.format.lower())
        if self.embed and self.format not in _KINDS.values():
            raise ValueError(f"Cannot embed the '{self.format}' image format")

    @staticmethod
    def _is_place(data):
        return True

    def reload(self):
        if self.embed:
            super().reload()

    def _kind(self):
        if isinstance(self.data, bytes):
            for begin, kind in _KINDS.items():
                if self.data.startswith(begin):
                    return kind
        name = self.filename or (self.url or "").partition("?")[0]
        return os.path.splitext(name)[1].lstrip(".") or "png"

    def _repr_png_(self):
        return self.data if self.embed and self.format == "png" else None

    def _repr_jpeg_(self):
        return self.data if self.embed and self.format == "jpeg" else None

    def _repr_mimebundle_(self, include=None, exclude=None):
        if not self.embed:
            sizes = {"width": self.width, "height": self.height, "alt": self.alt}
            more = "".join(f' {name}="{html.escape(str(value))}"' for name, value in sizes.items() if value is not None)
            return {"text/html": f'<img src="{html.escape(self.url)}"{more}/>'}
        return {f"image/{self.format}": self.data} if self.format in ("gif", "webp") else {}


class IFrame:
    def __init__(self, src, width, height, extras=None, **params):
        import urllib.parse
        self.src = f"{src}?{urllib.parse.urlencode(params)}" if params else src
        self.width, self.height, self.extras = width, height, extras or []

    def _repr_html_(self):
        return (f'<iframe width="{self.width}" height="{self.height}" src="{html.escape(self.src)}" frameborder="0" '
                f'allowfullscreen {" ".join(self.extras)}></iframe>')


def _display_as(name, kind, mime):
    def show(*objs, raw=False, metadata=None, **_):
        for obj in objs:
            form = obj if raw else _display.bundle_of(obj).get(mime)
            if form is not None:
                display({"text/plain": repr(obj), mime: form} if not raw else {mime: form}, raw=True)

    show.__name__ = show.__qualname__ = name
    show.__doc__ = f"Shows values as {kind}; with `raw`, what is {kind} already."
    return show


display_html = _display_as("display_html", "HTML", "text/html")
display_markdown = _display_as("display_markdown", "Markdown", "text/markdown")
display_svg = _display_as("display_svg", "SVG", "image/svg+xml")
display_png = _display_as("display_png", "PNG", "image/png")
display_jpeg = _display_as("display_jpeg", "JPEG", "image/jpeg")
display_latex = _display_as("display_latex", "LaTeX", "text/latex")
display_json = _display_as("display_json", "JSON", "application/json")
display_javascript = _display_as("display_javascript", "JavaScript", "application/javascript")
display_pretty = _display_as("display_pretty", "text", "text/plain")
