"""Text in, index expression out: the inverse of printing one."""

from __future__ import annotations

from wavespec.ir.expr import Expr, const, maximum, minimum
from wavespec.ir.tokens import TokenReader


def parse_expr(text: str, symbols: dict[str, Expr]) -> Expr:
    """An index expression over the given symbols; raises `IRSyntaxError`."""
    reader = ExprReader(text, symbols)
    result = reader.expression()
    reader.expect_end()
    return result


class ExprReader(TokenReader):
    """Recursive descent: sums of products of atoms, over ``symbols``."""

    def __init__(self, text: str, symbols: dict[str, Expr]) -> None:
        super().__init__(text)
        self.symbols = symbols

    def expression(self) -> Expr:
        total = self.term()
        while self.peek("+") or self.peek("-"):
            total = total + self.term() if self.accept("+") else (self.expect("-"), total - self.term())[1]
        return total

    def term(self) -> Expr:
        value = self.factor()
        while True:
            if self.accept("*"):
                value = value * self.factor()
            elif self.accept("//"):
                value = value // self.factor()
            elif self.accept("%"):
                value = value % self.factor()
            else:
                return value

    def factor(self) -> Expr:
        if self.accept("-"):
            return -self.factor()
        if self.accept("("):
            value = self.expression()
            self.expect(")")
            return value
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "int":
            return const(self.integer())
        name = self.take("name")
        if name in ("min", "max", "xor"):
            self.expect("(")
            left = self.expression()
            self.expect(",")
            right = self.expression()
            self.expect(")")
            return {"min": minimum, "max": maximum, "xor": Expr.__xor__}[name](left, right)
        if name not in self.symbols:
            self.at -= 1
            raise self.fail(f"a known symbol ({', '.join(sorted(self.symbols))})")
        return self.symbols[name]

    def bracketed(self) -> Expr:
        self.expect("[")
        value = self.expression()
        self.expect("]")
        return value
