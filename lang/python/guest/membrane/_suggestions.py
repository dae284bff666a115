"""What a NameError suggests, for less: where traceback has looked for a near name in C, and found none, it looks again in
Python, with the same account of what is near."""

import importlib.util
import traceback


def _too_far(a, b, max_cost):
    return max_cost + 1


def install():
    if importlib.util.find_spec("_suggestions") and hasattr(traceback, "_levenshtein_distance"):
        traceback._levenshtein_distance = _too_far
