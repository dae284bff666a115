"""The time zone of local time, where the embedder chooses one, or the variable TZ and time.tzset(). The C library knows UTC alone, so
what Python asks it for is answered here, by the zone's rules: the functions of `time`, and the methods of datetime and date. It
also lacks some directives of strftime that Linux has, and gives nothing for a format with one of them.

datetime's classes stay the ones that libraries in C were built for. They take no attributes, so their dictionaries are written to.
"""

import datetime
import functools
import gc
import os
import re
import sys
import time
import zoneinfo

_zone = None  # a ZoneInfo; None: UTC
_given = None  # the embedder's, which holds without TZ
_installed = False
_bare = {name: getattr(time, name) for name in ("gmtime", "localtime", "mktime", "asctime", "strftime", "time")}
_bare_tzname = time.tzname
_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND = datetime.timedelta(seconds=1)
_NEW_YEAR = (1, 7)  # months of standard and summer time, whatever the zone


class _Function:
    """A function that is not bound where a class has it, like those of C: logging.Formatter.converter is one."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.__module__, self.__qualname__ = "time", function.__name__

    def __call__(self, *arguments, **options):
        return self.__wrapped__(*arguments, **options)

    def __repr__(self):
        return f"<built-in function {self.__name__}>"


def install():
    """Gives `time` the functions that it lacks."""
    time.tzset, time.strftime = _Function(tzset), _Function(strftime)


def use(words):
    """words: the zone's name and its rules as base64; None: UTC."""
    global _given
    if words is None:
        if _given is None:
            return
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = words["name"]
    if words is None or words != use.words:
        _given = None if words is None else _zone_of_bytes(_decoded(words["tzif_base64"]), words["name"])
    use.words = words
    _apply(_given)


use.words = None


def tzset():
    """Adjusts local time to the variable TZ of os.environ: a name such as Europe/Berlin, or a rule such as EST5EDT,M3.2.0,M11.1.0.
    What is neither is UTC."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if _given is not None and name in ("", _given.key):
        _apply(_given)
    else:
        try:
            _apply(_zone_named(name) if name else None)
        except ValueError:  # its rules have an offset of a day, which a datetime cannot have
            _apply(None)


def _zone_named(name):
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # no zone's name; a directory's; not a name
        pass
    try:
        return _zone_of_bytes(_bytes_of_rule(name), name)
    except ValueError:
        return None


def _zone_of_bytes(rules, name):
    import io
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(rules), key=name)


def _decoded(text):
    import base64
    return base64.b64decode(text)


def _bytes_of_rule(text):
    """A file (RFC 8536) that has one rule for all times."""
    head = b"TZif2".ljust(20, b"\0") + bytes(19) + b"\1" + bytes(3) + b"\4"  # one kind of time, and four letters of its name
    block = head + bytes(6) + b"UTC\0"
    return block + block + b"\n" + text.encode() + b"\n"


def _apply(zone):
    global _zone
    if zone is _zone:
        return
    constants = _constants_of(zone)
    _zone = zone
    if not _installed:
        _install()
    time.timezone, time.altzone, time.daylight, time.tzname = constants


def _constants_of(zone):
    """time.timezone, altzone, daylight and tzname: of the year that it is, as the C library has them."""
    if zone is None:
        return 0, 0, 0, _bare_tzname
    year = _bare["gmtime"](_bare["time"]()).tm_year
    both = [_told(datetime.datetime(year, month, 1, tzinfo=zone)) for month in _NEW_YEAR]
    standard = min(both)
    summer = max(both)
    return -standard[0], -summer[0], int(standard[0] != summer[0]), (standard[1], summer[1])


def _told(moment):
    return int(moment.utcoffset() / _SECOND), moment.tzname()


def _offset_at(timestamp):
    """In seconds, with the name and whether it is summer time; of a moment that a datetime cannot be, of the nearest that one can."""
    seconds = min(max(int(timestamp // 1), -62135510400), 253402214400)
    moment = (_EPOCH + seconds * _SECOND).replace(tzinfo=_zone)
    local = _zone.fromutc(moment)
    return int(local.utcoffset() / _SECOND), local.tzname(), int(bool(local.dst()))


# --- time -----------------------------------------------------------------------------------------------------------


def localtime(seconds=None, /):
    """As time.localtime."""
    if _zone is None:
        return _bare["localtime"](seconds)
    at = _bare["time"]() if seconds is None else seconds
    if isinstance(at, float):
        at = at // 1
    _bare["gmtime"](at)  # raises if it is not a time
    offset, name, is_summer = _offset_at(at)
    shifted = _bare["gmtime"](at + offset)
    return time.struct_time((*shifted[:8], is_summer, name, offset))


def mktime(seconds_tuple, /):
    """As time.mktime: what does not exist, between winter and summer, is as far after the change as it is long."""
    if _zone is None:
        return _bare["mktime"](seconds_tuple)
    year, month, day, hour, minute, second, _, _, is_summer = time.struct_time(seconds_tuple)
    years, month = divmod(month - 1, 12)
    since = datetime.timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
    try:
        moment = datetime.datetime(year + years, month + 1, 1) + since
    except (OverflowError, ValueError):
        raise OverflowError("mktime argument out of range") from None
    first, second = (moment.replace(tzinfo=_zone, fold=fold) for fold in (0, 1))
    says_second = is_summer >= 0 and bool(first.dst()) != bool(is_summer) == bool(second.dst())
    return (moment - _EPOCH - (second if says_second else first).utcoffset()) / _SECOND


def ctime(seconds=None, /):
    """As time.ctime."""
    return _bare["asctime"](localtime(seconds))


def asctime(time_tuple=None, /):
    """As time.asctime."""
    return _bare["asctime"](localtime() if time_tuple is None else time_tuple)


def strftime(format, time_tuple=None, /):
    """As time.strftime on Linux."""
    if isinstance(format, str) and (_UNUSUAL.search(format) or _zone is not None and ("%Z" in format or "%z" in format)):
        parts = localtime() if time_tuple is None else time_tuple
        whole = parts if isinstance(parts, time.struct_time) else time.struct_time(parts)
        return _bare["strftime"](_DIRECTIVE.sub(lambda found: _usual(found, whole), format), parts)
    if time_tuple is None and _zone is None:
        return _bare["strftime"](format)
    return _bare["strftime"](format, localtime() if time_tuple is None else time_tuple)


_USUAL = "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ%"
_NUMBERS = frozenset("CdegGHIjklmMsSuUVwWyY")
_UNUSUAL = re.compile(f"%(?![{_USUAL}])", re.DOTALL)
_DIRECTIVE = re.compile("%([-_0^#]*)([0-9]*)([EO]?)(.?)", re.DOTALL)


def _usual(found, parts):
    """A directive of Linux in terms of those that the C library here knows: as it is, or its text."""
    flags, width, modifier, kind = found.groups()
    if kind in ("z", "Z") and _zone is not None and not flags and not width:
        name, offset = _zone_of(parts)
        minutes = abs(offset) // 60
        text = name if kind == "Z" else f"{'-' if offset < 0 else '+'}{minutes // 60:02}{minutes % 60:02}"
    elif kind == "s":
        text = str(int(mktime(parts)))
    elif kind in ("k", "l"):
        text = f"{parts.tm_hour if kind == 'k' else (parts.tm_hour - 1) % 12 + 1:2}"
    elif kind == "P":
        text = _bare["strftime"]("%p", parts).lower()
    elif not kind or kind not in _USUAL:
        return found[0].replace("%", "%%")
    elif not flags and not width:
        return found[0]
    else:
        text = _bare["strftime"](f"%{modifier}{kind}", parts)
    return _padded(text, flags, width, kind in _NUMBERS).replace("%", "%%")


def _padded(text, flags, width, is_number):
    length = max(len(text), min(int(width or 0), 1_000))
    for flag in flags:
        if flag == "-":
            text, length = text.lstrip("0 ") or text[-1:], 0
        elif flag == "^":
            text = text.upper()
        elif flag == "#":
            text = text.swapcase()
        elif is_number:
            text = text.lstrip("0 ") or "0"
    fill = "0" if is_number and "_" not in flags else " "
    return text.rjust(length, fill)


def _zone_of(parts):
    """The name and the offset of a struct_time that has them, else of what tm_isdst says."""
    name, offset = getattr(parts, "tm_zone", None), getattr(parts, "tm_gmtoff", None)
    if name is not None and offset is not None:
        return name, offset
    is_summer = parts[8] > 0
    return time.tzname[is_summer], -(time.altzone if is_summer and time.daylight else time.timezone)


# --- datetime -------------------------------------------------------------------------------------------------------


def _install():
    global _installed
    _installed = True
    for function in (localtime, mktime, ctime, asctime, strftime):
        setattr(time, function.__name__, _Function(function))
    if "logging" in sys.modules:  # it has taken the function before
        formatter = sys.modules["logging"].Formatter
        if formatter.converter is _bare["localtime"]:
            formatter.converter = time.localtime
    date, moment = datetime.date, datetime.datetime
    bare_date, bare = dict(vars(date)), dict(vars(moment))

    def naive(cls, local):
        return cls(local.year, local.month, local.day, local.hour, local.minute, local.second, local.microsecond,
                   fold=local.fold)

    def in_zone(timestamp):
        """What is no moment raises as it does without a zone."""
        try:
            return _zone.fromutc(from_timestamp(moment, timestamp, datetime.timezone.utc).replace(tzinfo=_zone))
        except (OverflowError, ValueError):  # perhaps of UTC alone, at an end of the calendar
            return from_timestamp(moment, timestamp + _offset_at(timestamp)[0], datetime.timezone.utc)

    def bound(name, of):
        descriptor = of[name]  # a method of the class: called with the subclass that it is accessed through
        return lambda cls, *values: descriptor.__get__(None, cls)(*values)

    from_timestamp, now_of = bound("fromtimestamp", bare), bound("now", bare)
    date_from_timestamp = bound("fromtimestamp", bare_date)
    to_zone, to_timestamp = bare["astimezone"], bare["timestamp"]

    def now(cls, tz=None):
        """Returns new datetime object representing current time local to tz."""
        return now_of(cls, tz) if tz is not None or _zone is None else naive(cls, in_zone(_bare["time"]()))

    def today(cls):
        """Current date or datetime: same as self.__class__.fromtimestamp(time.time())."""
        return cls.fromtimestamp(time.time())

    def fromtimestamp(cls, timestamp, tz=None):
        """timestamp[, tz] -> tz's local time from POSIX timestamp."""
        if tz is not None or _zone is None:
            return from_timestamp(cls, timestamp, tz)
        return naive(cls, in_zone(timestamp))

    def date_fromtimestamp(cls, timestamp, /):
        """Create a date from a POSIX timestamp, as local time."""
        if _zone is None:
            return date_from_timestamp(cls, timestamp)
        local = in_zone(timestamp)
        return cls(local.year, local.month, local.day)

    def timestamp(self):
        """Return POSIX timestamp as float."""
        if _zone is None or self.tzinfo is not None:
            return to_timestamp(self)
        return to_timestamp(self.replace(tzinfo=_zone))

    def astimezone(self, tz=None):
        """tz -> convert to local time in new timezone tz"""
        if _zone is None:
            return to_zone(self) if tz is None else to_zone(self, tz)
        known = self if self.tzinfo is not None and self.utcoffset() is not None else self.replace(tzinfo=_zone)
        if tz is not None:
            return to_zone(known, tz)
        local = to_zone(known, _zone)
        return to_zone(known, datetime.timezone(local.utcoffset(), local.tzname()))

    _put(date, "fromtimestamp", classmethod(date_fromtimestamp))
    for name, method in (("now", classmethod(now)), ("fromtimestamp", classmethod(fromtimestamp)),
                         ("today", classmethod(today)), ("timestamp", timestamp), ("astimezone", astimezone)):
        _put(moment, name, method)
    (getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache)()  # they cache methods by class and name


def _put(kind, name, method):
    function = getattr(method, "__func__", method)
    function.__module__, function.__name__, function.__qualname__ = None, name, f"{kind.__name__}.{name}"
    written, = (each for each in gc.get_referents(kind.__dict__) if isinstance(each, dict))
    written[name] = method
