"""Small charts without any library: line, bar, scatter and histogram.

    from membrane import chart
    chart.line([1, 2, 4, 8], title="Growth", x_label="day", y_label="users")

Each returns a Chart, which is shown as SVG if it is the value of a cell, and which also has the chart as Vega-Lite.
`chart.save(path)` writes the SVG.
"""

import math
from html import escape

__all__ = ["Chart", "bar", "histogram", "line", "scatter"]

_COLORS = ("#3366cc", "#dc3912", "#109618", "#ff9900", "#990099", "#0099c6", "#dd4477", "#66aa00")
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 36, 52
_MAX_POINTS = 50_000


def line(y, x=None, **options):
    """Draws a line through points. `y`: numbers, or {name: numbers} for several lines. `x`: numbers; 0, 1, 2, … by default.

    Options of every chart: title, x_label, y_label, width, height.
    """
    return Chart("line", _series_of(y, x), **options)


def scatter(x, y, **options):
    """Draws points. `y`: numbers, or {name: numbers} for several sets."""
    return Chart("point", _series_of(y, x), **options)


def bar(values, labels=None, **options):
    """Draws bars from zero. `values`: numbers with `labels`, or {label: number}."""
    if hasattr(values, "items"):
        labels, values = zip(*values.items()) if values else ((), ())
    numbers = [float(v) for v in values]
    names = [str(n) for n in (range(len(numbers)) if labels is None else labels)]
    if len(names) != len(numbers):
        raise ValueError(f"{len(numbers)} values, but {len(names)} labels")
    return Chart("bar", {"": list(zip(range(len(numbers)), numbers))}, labels=names, **options)


def histogram(values, bins=10, **options):
    """Draws how many of the numbers are in each of `bins` ranges of the same width."""
    numbers = [n for n in map(float, values) if math.isfinite(n)]
    if bins < 1:
        raise ValueError("a histogram needs at least one bin")
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for number in numbers:
        counts[min(int((number - low) / width), bins - 1)] += 1
    edges = [low + width * i for i in range(bins + 1)]
    return Chart("histogram", {"": list(zip(edges, counts))}, edges=edges, **options)


def _series_of(y, x):
    named = y if hasattr(y, "items") else {"": y}
    series = {}
    for name, values in named.items():
        numbers = [float(v) for v in values]
        places = [float(v) for v in x] if x is not None else [float(i) for i in range(len(numbers))]
        if len(places) != len(numbers):
            raise ValueError(f"{len(places)} values of x, but {len(numbers)} of y")
        if len(numbers) > _MAX_POINTS:
            raise ValueError(f"{len(numbers)} points; a chart has at most {_MAX_POINTS}")
        series[str(name)] = list(zip(places, numbers))
    return series


def ticks(low, high, count=6):
    """About `count` round numbers (1, 2 or 5 times a power of ten) that cover what lies between."""
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = 0.0, 1.0
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    rough = (high - low) / max(count - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next((m * power for m in (1, 2, 5) if m * power >= rough * 0.999), 10 * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def _label(number, step):
    if number == 0:
        return "0"
    if abs(number) >= 1e7 or step < 1e-5:
        return f"{number:.3g}"
    return f"{number:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


class Chart:
    def __init__(self, kind, series, *, title="", x_label="", y_label="", width=640, height=400, labels=None,
                 edges=None):
        self.kind, self.series, self.labels, self.edges = kind, series, labels, edges
        self.title, self.x_label, self.y_label = str(title), str(x_label), str(y_label)
        self.width, self.height = max(int(width), 160), max(int(height), 120)

    def __repr__(self):
        points = sum(len(s) for s in self.series.values())
        return f"<{self.kind} chart{' ' + repr(self.title) if self.title else ''}, {points} points>"

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._repr_svg_())

    # --- SVG ---

    def _repr_svg_(self):
        self._scale()
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{self.width}" height="{self.height}" fill="white"/>',
            *self._axes(), *self._marks(), *self._legend(), "</svg>",
        ]
        return "\n".join(parts)

    def _finite(self):
        return [(x, y) for points in self.series.values() for x, y in points
                if math.isfinite(x) and math.isfinite(y)]

    def _scale(self):
        points = self._finite() or [(0.0, 0.0)]
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        from_zero = self.kind in ("bar", "histogram")
        self._y_ticks = ticks(min(ys + [0.0] * from_zero), max(ys + [0.0] * from_zero))
        if self.kind == "bar":
            self._x_ticks, self._x_range = [], (-0.5, max(len(self.labels), 1) - 0.5)
        elif self.kind == "histogram":
            self._x_ticks, self._x_range = ticks(self.edges[0], self.edges[-1]), (self.edges[0], self.edges[-1])
            self._x_ticks = [t for t in self._x_ticks if self.edges[0] <= t <= self.edges[-1]]
        else:
            self._x_ticks = ticks(min(xs), max(xs))
            self._x_range = (self._x_ticks[0], self._x_ticks[-1])

    def _x(self, value):
        low, high = self._x_range
        return round(_LEFT + (value - low) / ((high - low) or 1.0) * (self.width - _LEFT - _RIGHT), 2)

    def _y(self, value):
        low, high = self._y_ticks[0], self._y_ticks[-1]
        return round(self.height - _BOTTOM - (value - low) / (high - low) * (self.height - _TOP - _BOTTOM), 2)

    def _axes(self):
        floor, right = self.height - _BOTTOM, self.width - _RIGHT
        step = self._y_ticks[1] - self._y_ticks[0]
        for tick in self._y_ticks:
            y = self._y(tick)
            yield f'<line x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{_label(tick, step)}</text>'
        yield f'<line x1="{_LEFT}" y1="{floor}" x2="{right}" y2="{floor}" stroke="#333"/>'
        yield f'<line x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{floor}" stroke="#333"/>'
        for place, text in self._x_labels():
            yield f'<text x="{place}" y="{floor + 18}" text-anchor="middle">{escape(text)}</text>'
        middle = (_LEFT + right) / 2
        if self.title:
            yield f'<text x="{middle}" y="20" text-anchor="middle" font-size="15">{escape(self.title)}</text>'
        if self.x_label:
            yield f'<text x="{middle}" y="{self.height - 12}" text-anchor="middle">{escape(self.x_label)}</text>'
        if self.y_label:
            y = (_TOP + floor) / 2
            yield (f'<text x="14" y="{y}" text-anchor="middle" transform="rotate(-90 14 {y})">'
                   f'{escape(self.y_label)}</text>')

    def _x_labels(self):
        if self.kind == "bar":
            every = max(1, math.ceil(len(self.labels) * 48 / (self.width - _LEFT - _RIGHT)))
            return [(self._x(i), n if len(n) <= 14 else n[:13] + "…") for i, n in enumerate(self.labels)
                    if i % every == 0]
        step = self._x_ticks[1] - self._x_ticks[0] if len(self._x_ticks) > 1 else 1.0
        return [(self._x(t), _label(t, step)) for t in self._x_ticks]

    def _marks(self):
        for (name, points), color in zip(self.series.items(), _COLORS * (len(self.series) // len(_COLORS) + 1)):
            if self.kind == "line":
                yield from self._line(points, color)
            elif self.kind == "point":
                for x, y in points:
                    if math.isfinite(x) and math.isfinite(y):
                        yield f'<circle cx="{self._x(x)}" cy="{self._y(y)}" r="3" fill="{color}" fill-opacity="0.7"/>'
            else:
                yield from self._bars(points, color)

    def _line(self, points, color):
        """A number that is none breaks the line."""
        piece = []
        for x, y in [*points, (math.nan, math.nan)]:
            if math.isfinite(x) and math.isfinite(y):
                piece.append(f"{self._x(x)},{self._y(y)}")
            elif piece:
                if len(piece) == 1:
                    cx, cy = piece[0].split(",")
                    yield f'<circle cx="{cx}" cy="{cy}" r="2" fill="{color}"/>'
                else:
                    yield f'<polyline points="{" ".join(piece)}" fill="none" stroke="{color}" stroke-width="2"/>'
                piece = []

    def _bars(self, points, color):
        zero = self._y(0.0)
        for i, (x, y) in enumerate(points):
            if not math.isfinite(y):
                continue
            left, right = (self._x(i - 0.4), self._x(i + 0.4)) if self.kind == "bar" else (
                self._x(self.edges[i]) + 0.5, self._x(self.edges[i + 1]) - 0.5)
            top = self._y(y)
            yield (f'<rect x="{left}" y="{min(top, zero)}" width="{max(round(right - left, 2), 0.5)}" '
                   f'height="{round(abs(zero - top), 2)}" fill="{color}"/>')

    def _legend(self):
        if len(self.series) < 2:
            return
        for i, name in enumerate(self.series):
            y = _TOP + 8 + 16 * i
            yield f'<rect x="{_LEFT + 10}" y="{y - 8}" width="10" height="10" fill="{_COLORS[i % len(_COLORS)]}"/>'
            yield f'<text x="{_LEFT + 26}" y="{y + 1}">{escape(name)}</text>'

    # --- Vega-Lite ---

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/svg+xml": self._repr_svg_(), "application/vnd.vegalite.v5+json": self.to_vega_lite()}

    def to_vega_lite(self):
        """The chart as a Vega-Lite specification."""
        rows = []
        for name, points in self.series.items():
            for i, (x, y) in enumerate(points):
                row = {"x": self.labels[i] if self.kind == "bar" else x, "y": y if math.isfinite(y) else None}
                if self.kind == "histogram":
                    row["x2"] = self.edges[i + 1]
                if len(self.series) > 1:
                    row["series"] = name
                rows.append(row)
        x = {"field": "x", "type": "nominal" if self.kind == "bar" else "quantitative", "title": self.x_label or None}
        if self.kind == "bar":
            x["sort"] = None
        if self.kind == "histogram":
            x["bin"] = "binned"
        encoding = {"x": x, "y": {"field": "y", "type": "quantitative", "title": self.y_label or None}}
        if self.kind == "histogram":
            encoding["x2"] = {"field": "x2"}
        if len(self.series) > 1:
            encoding["color"] = {"field": "series", "type": "nominal"}
        specification = {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "width": self.width, "height": self.height, "data": {"values": rows},
            "mark": "bar" if self.kind == "histogram" else self.kind, "encoding": encoding,
        }
        if self.title:
            specification["title"] = self.title
        return specification
