import textwrap
from string import Template

text = open("data/story.txt").read()
paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]

print(textwrap.fill(paragraphs[0], width=60, initial_indent="  ", subsequent_indent="  "))
print()
print(textwrap.shorten(paragraphs[1], width=70, placeholder=" [...]"))
print()
for line in textwrap.wrap(paragraphs[2], 40)[:5]:
    print(f"|{line:^40}|")

code = """
    def f(x):
        return x
"""
print(textwrap.dedent(code).strip())
print(textwrap.indent("first\n\nsecond", "> ", lambda line: True))

letter = Template("Dear $name,\nyour order #$id of ${currency}$$ $amount is $status.\n")
print(letter.substitute(name="Lena", id=17, currency="EUR", amount="12.50", status="on its way"))
print(letter.safe_substitute(name="Omar"))
try:
    letter.substitute(name="Omar")
except KeyError as e:
    print("missing:", e)

row = "{:<10}|{:^8}|{:>10.2f}|{:+d}|{:#x}|{:,}|{:.1%}|{:e}"
print(row.format("left", "mid", 3.14159, 7, 255, 1234567, 0.256, 12345.678))
width = 12
print(f"{'x':*^{width}} {3.0!r:>{width}} {width=} {1_000:_} {0b101:08b} {'ü':>3}")
