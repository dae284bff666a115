"""A tokenizer and a recursive parser for arithmetic, with variables."""
import re
from typing import NamedTuple


class Token(NamedTuple):
    kind: str
    text: str
    column: int


SPEC = [("NUMBER", r"\d+(\.\d*)?"), ("NAME", r"[A-Za-z_]\w*"), ("OP", r"\*\*|[-+*/%()=,]"), ("SPACE", r"\s+"), ("BAD", r".")]
MASTER = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in SPEC))


def tokenize(text):
    for m in MASTER.finditer(text):
        if m.lastgroup == "BAD":
            raise SyntaxError(f"unexpected {m.group()!r} at column {m.start() + 1}")
        if m.lastgroup != "SPACE":
            yield Token(m.lastgroup, m.group(), m.start() + 1)
    yield Token("END", "", len(text) + 1)


class Parser:
    FUNCTIONS = {"max": max, "min": min, "abs": abs}

    def __init__(self, names):
        self.names = names

    def run(self, text):
        self.tokens = list(tokenize(text))
        self.at = 0
        if self.tokens[0].kind == "NAME" and self.tokens[1].text == "=":
            name = self.take().text
            self.take("=")
            self.names[name] = value = self.sum()
        else:
            value = self.sum()
        if self.peek().kind != "END":
            raise SyntaxError(f"unexpected {self.peek().text!r} at column {self.peek().column}")
        return value

    def peek(self):
        return self.tokens[self.at]

    def take(self, text=None):
        token = self.peek()
        if text and token.text != text:
            raise SyntaxError(f"expected {text!r} at column {token.column}")
        self.at += 1
        return token

    def sum(self):
        value = self.product()
        while self.peek().text in ("+", "-"):
            value = value + self.product() if self.take().text == "+" else value - self.product()
        return value

    def product(self):
        value = self.power()
        while self.peek().text in ("*", "/", "%"):
            op, right = self.take().text, self.power()
            value = {"*": lambda: value * right, "/": lambda: value / right, "%": lambda: value % right}[op]()
        return value

    def power(self):
        base = self.atom()
        if self.peek().text == "**":
            self.take()
            return base ** self.power()
        return base

    def atom(self):
        token = self.take()
        if token.text == "-":
            return -self.power()
        if token.text == "(":
            value = self.sum()
            self.take(")")
            return value
        if token.kind == "NUMBER":
            return float(token.text) if "." in token.text else int(token.text)
        if token.kind == "NAME" and self.peek().text == "(":
            self.take()
            arguments = [self.sum()]
            while self.peek().text == ",":
                self.take()
                arguments.append(self.sum())
            self.take(")")
            return self.FUNCTIONS[token.text](*arguments)
        if token.kind == "NAME":
            return self.names[token.text]
        raise SyntaxError(f"unexpected {token.text or 'end'!r} at column {token.column}")


parser = Parser({"pi": 3.14159})
for line in ["1 + 2 * 3", "(1 + 2) * 3", "2 ** 3 ** 2", "-2 ** 2", "x = 10 / 4", "x * pi", "max(1, x, 2) % 2", "7 +", "3 $ 4", "y + 1", "(1 + 2"]:
    try:
        print(f"{line:<18} = {parser.run(line)}")
    except (SyntaxError, KeyError) as error:
        print(f"{line:<18} ! {type(error).__name__}: {error}")
