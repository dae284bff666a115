from datetime import date

from openpyxl import Workbook, load_workbook
from openpyxl.chart import BarChart, Reference
from openpyxl.styles import Alignment, PatternFill
from openpyxl.utils import get_column_letter

wb = Workbook()
ws = wb.active
ws.title = "Invoice"
ws.append(["Item", "Qty", "Price", "Total"])
for i, (name, qty, price) in enumerate([("Ink", 2, 9.6), ("Pen", 1, 34.5), ("Paper", 5, 14.25)], start=2):
    ws.append([name, qty, price, f"=B{i}*C{i}"])
ws["A6"] = "Date"
ws["B6"] = date(2024, 5, 14)
ws.merge_cells("A8:D8")
ws["A8"].alignment = Alignment(horizontal="center")
for cell in ws[1]:
    cell.fill = PatternFill("solid", fgColor="DDDDFF")
chart = BarChart()
chart.add_data(Reference(ws, min_col=3, min_row=1, max_row=4), titles_from_data=True)
ws.add_chart(chart, "F2")
wb.create_sheet("Notes")["A1"] = "paid ✓"
wb.save("invoice.xlsx")

again = load_workbook("invoice.xlsx")
for row in again["Invoice"].iter_rows(min_row=1, max_row=6):
    print([c.value for c in row])
print(again["Notes"]["A1"].value, again["Invoice"].dimensions, get_column_letter(28), again["Invoice"].merged_cells.ranges)
