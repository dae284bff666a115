"""Values as they are shown: text always, and what else a value can be shown as."""

import base64
import io
import sys

MAX_TEXT = 20_000  # characters of a repr
MAX_RICH = 8 << 20  # bytes of one other representation

# The method of a value, and the MIME type of its result.
_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
)

_PLAIN = frozenset((int, float, str, bool, complex, bytes, list, tuple, dict, set, frozenset))  # are shown as text only

_shown = []  # in the current turn
more_forms = None  # value -> [(MIME type, representation)], for providers of further representations


def display(*values):
    """Shows the values beside the result of the cell: each as text, and as HTML, SVG, PNG, … where it can be."""
    _shown.extend(bundle_of(value) for value in values)


def take_displays():
    """What was shown since the last call, open figures too."""
    take_figures()
    if not _shown:
        return []
    shown = list(_shown)
    _shown.clear()
    return shown


def cut(text, limit=MAX_TEXT):
    """The text, without its middle where it is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _describe(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def text_of(value):
    """The bounded repr. One that raises is told of, and harms nobody."""
    try:
        return cut(repr(value))
    except Exception as error:
        return f"<the repr of {type(value).__name__} raised {_describe(error)}>"


def _rich_forms(value):
    bundle = getattr(value, "_repr_mimebundle_", None)
    if callable(bundle):
        forms = bundle()
        yield from (forms[0] if isinstance(forms, tuple) else forms or {}).items()
    for method, mime in _METHODS:
        form = getattr(value, method, None)
        if callable(form):
            made = form()
            yield mime, made[0] if isinstance(made, tuple) else made
    if _is_figure_that_nothing_shows(value):
        yield "image/png", _picture_of(value)
    if more_forms is not None:
        yield from more_forms(value)


def _is_figure_that_nothing_shows(value):
    """A figure of matplotlib that pyplot does not hold, or that was saved in a file: take_figures() leaves it out."""
    figures = sys.modules.get("matplotlib.figure")
    if figures is None or not isinstance(value, figures.Figure):
        return False
    managers = getattr(sys.modules.get("matplotlib._pylab_helpers"), "Gcf", None)
    is_held = managers is not None and any(manager.canvas.figure is value for manager in managers.figs.values())
    return not is_held or getattr(value, "membrane_saved", False)


def _picture_of(figure):
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    return picture.getvalue()


def _to_json(form):
    """A form as JSON, and its size."""
    if isinstance(form, (bytes, bytearray)):
        return {"base64": base64.b64encode(form).decode()}, len(form)
    if isinstance(form, str):
        return form, len(form)
    import json
    text = json.dumps(form, default=repr)
    return json.loads(text), len(text)


def bundle_of(value):
    """{MIME type: text, {"base64":…}, or JSON}. text/plain is always there."""
    shown = {"text/plain": text_of(value)}
    if type(value) in _PLAIN and more_forms is None:
        return shown
    if isinstance(value, type):  # a class has the methods, but for its instances
        return shown
    try:
        for mime, form in _rich_forms(value):
            if form is None or mime == "text/plain" or mime in shown:
                continue
            made, size = _to_json(form)
            if size > MAX_RICH:
                shown["text/plain"] += f"\n<its {mime} has {size} bytes, and is left out>"
            else:
                shown[mime] = made
    except Exception as error:
        shown["text/plain"] += f"\n<showing it raised {_describe(error)}>"
    return shown


def _has_figures():
    """Whether pyplot may hold any: asking pyplot itself takes ten times as long."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers is None or bool(helpers.Gcf.figs)


def take_figures():
    """Shows the figures that pyplot holds and the program did not save in files, and closes all."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums") or not _has_figures():
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if getattr(figure, "membrane_saved", False):
            pyplot.close(figure)
            continue
        try:
            made = {"text/plain": text_of(figure), "image/png": _to_json(_picture_of(figure))[0]}
        except Exception as error:
            made = {"text/plain": f"<drawing the figure raised {_describe(error)}>"}
        finally:
            pyplot.close(figure)
        _shown.append(made)
