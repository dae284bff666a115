from datetime import date, datetime, timedelta, timezone

from dateutil import parser
from dateutil.relativedelta import relativedelta
from dateutil.rrule import MO, MONTHLY, WEEKLY, rrule

samples = [
    "2024-02-29", "29 Feb 2024", "Feb 29, 2024 5:30 PM", "2024-02-29T17:30:00+01:00", "20240229", "Thu 29 February 2024",
    "13/02/2024", "not a date",
]
for text in samples:
    try:
        print(f"{text:<28} -> {parser.parse(text, default=datetime(2000, 1, 1)).isoformat()}")
    except parser.ParserError as e:
        print(f"{text:<28} -> error: {e}")

born = date(1990, 4, 17)
age = relativedelta(date(2024, 3, 1), born)
print(f"age: {age.years} years, {age.months} months, {age.days} days")
print("end of next month:", date(2024, 1, 31) + relativedelta(months=1))
print("mondays:", [d.strftime("%d.%m.") for d in rrule(WEEKLY, byweekday=MO, count=4, dtstart=datetime(2024, 5, 1))])
print("last days:", [d.day for d in rrule(MONTHLY, bymonthday=-1, count=4, dtstart=datetime(2024, 1, 1))])

stamp = datetime(2024, 3, 31, 0, 30, tzinfo=timezone.utc)
print(stamp.timestamp(), stamp.isocalendar(), stamp.strftime("%j %U %a %p"))
print(datetime.fromtimestamp(1_700_000_000, timezone(timedelta(hours=5, minutes=30))).isoformat())
print(str(timedelta(days=3, seconds=7384)), timedelta(hours=30) / timedelta(minutes=45))
