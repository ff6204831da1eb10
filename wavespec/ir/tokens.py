"""The text of printed kernels and index expressions in, tokens with their places out."""

from __future__ import annotations

import re
from typing import cast

_TOKEN = re.compile(
    r"""\s*(?:(?P<float>-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+|(?:-?inf|nan)\b)
    |(?P<int>\d+)|(?P<name>[A-Za-z_][\w.]*|`[^`]*`)|(?P<value>(?<![\w)`])%[\w.]+)|(?P<global>@[\w.]+)
    |(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>//|\.\.|[-+*%()\[\]{}<>,:;=|!/^]))""",
    re.VERBOSE,
)


class IRSyntaxError(ValueError):
    """The text is not a printed kernel; the message has the place and what was expected."""


class TokenReader:
    """The tokens of a text, and where the reader is among them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if not found:
                raise IRSyntaxError(f"at {self._place(at)}: unexpected character {text[at : at + 1]!r}")
            kind = cast(str, found.lastgroup)
            self.tokens.append((kind, found.group(kind), found.start(kind)))
            at = found.end()
        self.at: int = 0
        """The number of the next token."""

    def _place(self, offset: int) -> str:
        line = self.text.count("\n", 0, offset) + 1
        return f"{line}:{offset - self.text.rfind(chr(10), 0, offset)}"

    def fail(self, expected: str) -> IRSyntaxError:
        _, text, offset = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end", len(self.text))
        return IRSyntaxError(f"at {self._place(offset)}: expected {expected}, found '{text}'")

    def peek(self, text: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at][1] == text and self.tokens[self.at][0] != "text"

    def text_at(self, ahead: int) -> str:
        """The text of a later token; empty behind the end."""
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fail(f"'{text}'")

    def expect_end(self) -> None:
        if self.at != len(self.tokens):
            raise self.fail("the end")

    def take(self, kind: str) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != kind:
            raise self.fail(f"a {kind}")
        self.at += 1
        text = self.tokens[self.at - 1][1]
        return text.strip("`") if kind == "name" else text

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * int(self.take("int"))
