"""Tracebacks that say what the library's say, for less: what it does in Python though nothing can come of it is left out."""

import importlib.util
import traceback


def _too_far(a, b, max_cost):
    """Of a NameError's suggestions: where the library has looked for a near name in C, and found none, it looks again."""
    return max_cost + 1


_width = getattr(traceback, "_wlen", None)


def _width_of(text):
    """The width of a line, which the library adds up sign by sign."""
    return len(text) if text.isascii() and text.isprintable() else _width(text)


_format = traceback.StackSummary.format_frame_summary
_last = None, None


def _format_once(self, frame_summary, **options):
    """A recursion's frames are all alike, and of a thousand three are shown."""
    global _last
    frame = frame_summary
    key = (frame.filename, frame.lineno, frame.name, frame.line, getattr(frame, "colno", None), frame.locals is None,
           getattr(frame, "end_lineno", None), getattr(frame, "end_colno", None), tuple(options.items()))
    if key != _last[0] or frame.locals is not None:
        _last = key, _format(self, frame, **options)
    return _last[1]


def install():
    traceback.StackSummary.format_frame_summary = _format_once
    if _width is not None:
        traceback._wlen = _width_of
    if importlib.util.find_spec("_suggestions") and hasattr(traceback, "_levenshtein_distance"):
        traceback._levenshtein_distance = _too_far
