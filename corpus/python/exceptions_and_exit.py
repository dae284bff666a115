import sys
import traceback


class ConfigError(Exception):
    """The configuration is wrong."""


def load(settings):
    try:
        port = int(settings["port"])
    except KeyError as error:
        raise ConfigError("no port is set") from error
    except ValueError:
        raise ConfigError(f"port {settings['port']!r} is no number") from None
    else:
        return port
    finally:
        print("looked at", settings)


for settings in ({"port": "80"}, {}, {"port": "x"}):
    try:
        print(load(settings))
    except ConfigError as error:
        print("ConfigError:", error, "| cause:", repr(error.__cause__))

try:
    [1, 2][5]
except IndexError:
    text = traceback.format_exc()
    print(text.splitlines()[0], "...", text.splitlines()[-1])

try:
    raise ExceptionGroup("several", [ValueError("a"), TypeError("b"), KeyError("c")])
except* ValueError as group:
    print("values:", group.exceptions)
except* (TypeError, KeyError) as group:
    print("others:", len(group.exceptions))

error = ValueError("bad")
error.add_note("while reading line 3")
print(error.__notes__)

for attempt in (lambda: 1 / 0, lambda: "a" + 1, lambda: None.x, lambda: {}["k"], lambda: undefined, lambda: int("z")):
    try:
        attempt()
    except Exception as e:
        print(f"{type(e).__name__}: {e}")

try:
    assert 1 + 1 == 3, "arithmetic is broken"
except AssertionError as e:
    print("assert:", e)


def main():
    print("done")
    sys.exit(0)


if __name__ == "__main__":
    main()
    print("never printed")
