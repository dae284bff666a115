import math
import unittest
import xml.etree.ElementTree as xml

from membrane import chart


class Charts(unittest.TestCase):
    def svg(self, made):
        return xml.fromstring(made._repr_svg_())

    def texts(self, made):
        return [t.text for t in self.svg(made).iter("{http://www.w3.org/2000/svg}text")]

    def count(self, made, name):
        return len(list(self.svg(made).iter("{http://www.w3.org/2000/svg}" + name)))

    def test_ticks_are_round_and_cover(self):
        self.assertEqual(chart.ticks(0, 10), [0, 2, 4, 6, 8, 10])
        self.assertEqual(chart.ticks(0, 97), [0, 20, 40, 60, 80, 100])
        for low, high in ((0, 1), (-3, 7), (1e-9, 2e-9), (1e12, 1e12 + 1), (5, 5), (0, 0), (-1e300, 1e300)):
            made = chart.ticks(low, high)
            self.assertTrue(2 <= len(made) <= 12, (low, high, made))
            self.assertTrue(made[0] <= low and made[-1] >= high)
        self.assertEqual(len(chart.ticks(math.nan, math.inf)), 6)

    def test_every_kind_is_xml(self):
        for made in (chart.line([1, 2, 3]), chart.line({"a": [1, 2], "b": [3, 4]}, x=[10, 20]),
                     chart.scatter([1, 2], [3, 4]), chart.bar([1, -2], ["x", "y"]), chart.bar({"x": 1}),
                     chart.histogram([1, 1, 2, 5], bins=3), chart.line([]), chart.bar([]), chart.histogram([]),
                     chart.line([5]), chart.line([math.nan, 1, 2, math.inf, 3]), chart.bar({})):
            self.assertEqual(self.svg(made).tag, "{http://www.w3.org/2000/svg}svg")
            self.assertNotIn("nan", made._repr_svg_())
            self.assertNotIn("inf", made._repr_svg_())

    def test_labels_are_escaped(self):
        made = chart.bar({"<a>&": 1}, title="<script>", x_label='"x"', y_label="y<")
        for text in ("<a>&", "<script>", '"x"', "y<"):
            self.assertIn(text, self.texts(made))

    def test_a_gap_breaks_the_line(self):
        self.assertEqual(self.count(chart.line([1, 2, None and 0 or math.nan, 4, 5]), "polyline"), 2)

    def test_a_histogram_counts_everything_once(self):
        made = chart.histogram([0, 1, 2, 3, 4, 4], bins=4)
        self.assertEqual([y for _, y in made.series[""]], [1, 1, 1, 3])
        self.assertEqual(made.edges, [0, 1, 2, 3, 4])

    def test_mistakes_are_reported(self):
        for wrong in (lambda: chart.line([1], x=[1, 2]), lambda: chart.bar([1], ["a", "b"]),
                      lambda: chart.histogram([1], bins=0), lambda: chart.line(["a"]),
                      lambda: chart.line(range(100_000))):
            self.assertRaises(ValueError, wrong)

    def test_it_is_vega_lite_too(self):
        bundle = chart.bar({"a": 1, "b": 2}, title="T")._repr_mimebundle_()
        made = bundle["application/vnd.vegalite.v5+json"]
        self.assertEqual((made["mark"], made["title"], made["data"]["values"]),
                         ("bar", "T", [{"x": "a", "y": 1.0}, {"x": "b", "y": 2.0}]))
        self.assertIn("image/svg+xml", bundle)


if __name__ == "__main__":
    unittest.main()
