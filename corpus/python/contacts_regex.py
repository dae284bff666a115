import re
from dataclasses import asdict, dataclass
from datetime import date, datetime


@dataclass(order=True)
class Contact:
    name: str
    email: str | None = None
    phone: str | None = None
    born: date | None = None


def normalise_phone(text):
    digits = re.sub(r"[^\d+]", "", text)
    if digits.startswith("0"):
        digits = "+49" + digits[1:]
    return re.sub(r"(\+\d{2,3}?)(\d{2,3})(\d+)", r"\1 \2 \3", digits)


def parse_date(text):
    for fmt in ("%Y-%m-%d", "%d %B %Y", "%d/%m/%Y"):
        try:
            return datetime.strptime(text, fmt).date()
        except ValueError:
            pass
    raise ValueError(f"unknown date {text!r}")


contacts = []
with open("data/contacts.txt") as f:
    for block in re.split(r"\n\s*\n", f.read().strip()):
        fields = dict(re.findall(r"^(\w+):\s*(.+)$", block, re.M))
        contacts.append(Contact(fields["Name"], fields.get("Email"), normalise_phone(fields["Phone"]), parse_date(fields["Born"])))

for c in sorted(contacts):
    print(asdict(c))

for c in contacts:
    user, domain = re.fullmatch(r"([\w.+]+)@([\w.]+)", c.email).groups()
    print(f"{c.name.split()[0]:<6} user={user.split('+')[0]} domain={domain}")
print("oldest:", min(contacts, key=lambda c: c.born).name)
