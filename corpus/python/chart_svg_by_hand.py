import csv
from collections import Counter
from xml.etree import ElementTree as ET

with open("data/sales.csv", newline="") as f:
    counts = Counter(row["product"] for row in csv.DictReader(f))

width, height, pad = 400, 200, 30
svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", width=str(width), height=str(height))
step = (width - 2 * pad) / len(counts)
top = max(counts.values())
for i, (name, n) in enumerate(counts.most_common()):
    h = n / top * (height - 2 * pad)
    ET.SubElement(svg, "rect", x=f"{pad + i * step + 4:.1f}", y=f"{height - pad - h:.1f}", width=f"{step - 8:.1f}",
                  height=f"{h:.1f}", fill=f"hsl({i * 60}, 70%, 50%)")
    label = ET.SubElement(svg, "text", {"x": f"{pad + (i + 0.5) * step:.1f}", "y": str(height - 10), "text-anchor": "middle"})
    label.text = name

ET.indent(svg)
with open("counts.svg", "wb") as f:
    ET.ElementTree(svg).write(f, encoding="utf-8", xml_declaration=True)
print(open("counts.svg", encoding="utf-8").read())
