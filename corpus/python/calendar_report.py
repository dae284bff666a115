import calendar
import datetime as dt
from zoneinfo import ZoneInfo

print(calendar.month(2024, 2))
print([d for d in calendar.Calendar(firstweekday=0).itermonthdates(2024, 9)][:2], calendar.monthrange(2024, 2), calendar.isleap(2100))
fridays = [d for m in range(1, 13) if (d := dt.date(2026, m, 13)).weekday() == 4]
print("Friday 13th in 2026:", [d.isoformat() for d in fridays])


def easter(year):
    a, b, c = year % 19, year // 100, year % 100
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    l = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 19 * l) // 433
    month = (h + l - 7 * m + 90) // 25
    return dt.date(year, month, (h + l - 7 * m + 33 * month + 19) % 32)


print([easter(y).strftime("%d %b %Y") for y in (2024, 2025, 2026)])


def workdays(start, end):
    return sum(1 for n in range((end - start).days) if (start + dt.timedelta(n)).weekday() < 5)


print(workdays(dt.date(2024, 1, 1), dt.date(2025, 1, 1)))

meeting = dt.datetime(2024, 3, 29, 16, 0, tzinfo=ZoneInfo("Europe/Oslo"))
for zone in ("UTC", "America/New_York", "Asia/Tokyo", "Australia/Adelaide"):
    print(f"{zone:<20}{meeting.astimezone(ZoneInfo(zone)):%a %H:%M %Z}")
later = meeting + dt.timedelta(days=3)
print(meeting.utcoffset(), later.utcoffset(), later.isoformat())
print(dt.datetime.strptime("14/May/2024:06:00:03 +0200", "%d/%b/%Y:%H:%M:%S %z").astimezone(dt.timezone.utc))
print(dt.date.fromisocalendar(2024, 53 if dt.date(2024, 12, 28).isocalendar().week == 53 else 52, 1), dt.date.max, dt.timedelta(-1))
week = dt.date(2024, 5, 15)
print("week:", week - dt.timedelta(days=week.weekday()), "to", week + dt.timedelta(days=6 - week.weekday()))
