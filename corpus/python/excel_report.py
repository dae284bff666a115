from pathlib import Path

import pandas as pd
from openpyxl import load_workbook
from openpyxl.styles import Font

sales = pd.read_csv("data/sales.csv")
sales["revenue"] = sales["units"] * sales["unit_price"]
summary = sales.groupby("region", as_index=False)["revenue"].sum().round(2)

path = Path("report.xlsx")
with pd.ExcelWriter(path, engine="openpyxl") as writer:
    summary.to_excel(writer, sheet_name="Summary", index=False)
    sales.head(20).to_excel(writer, sheet_name="Rows", index=False)

book = load_workbook(path)
sheet = book["Summary"]
for cell in sheet[1]:
    cell.font = Font(bold=True)
sheet["A7"] = "Total"
sheet["B7"] = "=SUM(B2:B5)"
sheet.column_dimensions["A"].width = 18
book.save(path)

print("written:", path.exists(), path.stat().st_size > 3000)
again = load_workbook(path)
print(again.sheetnames)
for row in again["Summary"].iter_rows(values_only=True):
    print(row)
print(pd.read_excel(path, sheet_name="Rows").shape)
