import html
import re
import xml.etree.ElementTree as ET
from datetime import timezone
from email.utils import parsedate_to_datetime

DC = "{http://purl.org/dc/elements/1.1/}"
channel = ET.parse("data/feed.xml").getroot().find("channel")
print(channel.findtext("title"), "-", channel.findtext("link"))

items = []
for item in channel.findall("item"):
    text = html.unescape(item.findtext("description"))
    items.append(
        (
            parsedate_to_datetime(item.findtext("pubDate")).astimezone(timezone.utc),
            item.findtext("title"),
            item.findtext(f"{DC}creator"),
            [c.text for c in item.findall("category")],
            re.sub(r"<[^>]+>", "", text),
        )
    )

for when, title, who, categories, text in sorted(items):
    print(f"{when:%Y-%m-%d %H:%M} UTC  {title} ({who}) {categories}")
    print(f"    {text}")
