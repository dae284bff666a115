import os

from pypdf import PdfReader, PdfWriter
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas

c = canvas.Canvas("report.pdf", pagesize=A4)
for page, text in enumerate(["The level is rising.", "The level is falling.", "No ducks today."], 1):
    c.setFont("Helvetica", 16)
    c.drawString(72, 770, f"Page {page}")
    c.setFont("Times-Roman", 12)
    c.drawString(72, 740, text)
    c.rect(72, 600, 200, 100)
    c.showPage()
c.save()
print("written:", os.path.getsize("report.pdf") > 1000)

reader = PdfReader("report.pdf")
print("pages:", len(reader.pages))
for page in reader.pages:
    print(page.extract_text().split("\n"))

writer = PdfWriter()
for page in reversed(reader.pages):
    writer.add_page(page)
writer.add_metadata({"/Title": "Backwards"})
with open("backwards.pdf", "wb") as f:
    writer.write(f)
again = PdfReader("backwards.pdf")
print(again.metadata.title, again.pages[0].extract_text().split("\n")[0])
