"""Text in, kernel out: reads what `printer.print_kernel` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.expr_parser import ExprReader
from wavespec.ir.kernel import (
    Distribution,
    Kernel,
    LoopSchedule,
    Memory,
    Op,
    Region,
    Split,
    TileType,
    Value,
    VectorType,
    WaveOrder,
    WaveRoles,
)
from wavespec.ir.layout import Arrangement, Digit, Layout, RegisterAxis, Swizzle
from wavespec.ir.printer import default_attributes
from wavespec.ir.tile_order import COUNT, INDEX
from wavespec.ir.tokens import IRSyntaxError

T = TypeVar("T")


def parse_kernel(text: str) -> Kernel:
    """A printed kernel; spans are not part of the text.  Raises `IRSyntaxError`."""
    return _KernelReader(text, {}).kernel()


class _KernelReader(ExprReader):
    """Recursive descent over the tokens; one method per rule of the printed form."""

    def __init__(self, text: str, symbols: dict[str, Expr]) -> None:
        super().__init__(text, symbols)
        self.values: dict[str, Value] = {}

    def kernel(self) -> Kernel:
        level = self.take("name")
        if level not in ("tile", "thread"):
            raise IRSyntaxError(f"a kernel starts with 'tile' or 'thread', not '{level}'")
        self.expect("kernel")
        name = self.take("global")[1:]
        self.expect("target")
        target = self.take("name")
        self.expect("lanes")
        lanes = self.integer()
        symbols = self.each("symbol", self.symbol)
        plan = self.distribution()
        waves = self.each("wave", lambda: (self.take("name"), self.integer()))
        launched = self.bracketed() if self.accept("launched") else None
        producers = self.integer() if self.accept("producers") else 0
        cluster = self.integer() if self.accept("cluster") else 1
        axes = self.each("grid", lambda: (self.bracketed(), self.accept("joined")))
        present = self.each("present", lambda: self.take("name"))
        sizes = self.each("size", lambda: (self.take("name"), self.bracketed()))
        scalars = self.each("scalar", lambda: (self.take("name"), self.dtype()))
        flushes = self.accept("flushes")
        notes = self.each("note", self.attribute)
        memories = self.each("memory", self.memory)
        self.expect("{")
        body: list[Op] = []
        while not self.accept("}"):
            body.append(self.op())
        self.expect_end()
        return Kernel(
            name,
            "tile" if level == "tile" else "thread",
            target,
            symbols,
            memories,
            tuple(body),
            plan,
            tuple(extent for extent, _ in axes),
            waves,
            lanes,
            producers,
            cluster,
            sizes,
            notes,
            tuple(axis for axis, (_, is_joined) in enumerate(axes) if is_joined),
            present,
            scalars,
            flushes,
            launched,
        )

    def each(self, word: str, rule: Callable[[], T]) -> tuple[T, ...]:
        """What the rule reads behind the word, as often as it is there."""
        found: list[T] = []
        while self.accept(word):
            found.append(rule())
        return tuple(found)

    def symbol(self) -> Expr:
        name = self.take("name")
        self.expect("in")
        low = None if self.peek("..") else self.integer()
        self.expect("..")
        high = None if self.peek("by") else self.integer()
        self.expect("by")
        self.symbols[name] = symbol(name, low, high, self.integer())
        return self.symbols[name]

    def distribution(self) -> Distribution:
        splits: dict[str, list[Split]] = {"workgroup": [], "loop": [], "wave": [], "vector": []}
        while self.accept("split"):
            kind = self.take("name")
            if kind not in splits:
                self.at -= 1
                raise self.fail("'workgroup', 'loop', 'wave' or 'vector'")
            dim, tile, axis = self.take("name"), self.integer(), self.integer()
            splits[kind].append(Split(dim, tile, axis, self.tile_order() if self.accept("order") else None))
        self.expect("plan")
        instruction = self.take("text")[1:-1]
        self.expect("stages")
        stages = self.integer()
        self.expect("group")
        group = self.integer()
        chiplets = self.integer() == 1 if self.accept("chiplets") else None
        persistent, roles = self.accept("persistent"), WaveRoles()
        workers = self.integer() if self.accept("workers") else 0
        cluster = self.integer() if self.accept("cluster") else 1
        split = self.integer() if self.accept("split") else 1
        last_round = self.integer() if self.accept("last_round") else 1
        resident = self.integer() if self.accept("resident") else 1
        of_lanes = self.integer() if self.accept("registers") else 0
        fitted = self.accept("fitted")
        if self.accept("roles"):
            producers, order = self.integer(), self.take("name")
            orders: dict[str, WaveOrder] = {one: one for one in get_args(WaveOrder)}
            early = self.accept("early_wait")
            registers, buffers = (self.integer(), self.integer()), list[tuple[str, int]]()
            while self.accept("buffers"):
                buffers.append((self.take("name"), self.integer()))
            known = orders.get(order, "together")
            roles = WaveRoles(producers, known, registers, buffers=tuple(buffers), early_wait=early)
        auto = self.take("name") if self.accept("auto") else ""
        schedules: list[LoopSchedule] = []
        while self.accept("schedule"):
            self.expect("{")
            fields: dict[str, Any] = dict(self.attributes())
            schedules.append(LoopSchedule(**fields))
        return Distribution(
            workgroup=tuple(splits["workgroup"]),
            loops=tuple(splits["loop"]),
            waves=tuple(splits["wave"]),
            vectors=tuple(splits["vector"]),
            instruction=instruction,
            stages=stages,
            group=group,
            chiplets=chiplets,
            persistent=persistent,
            workers=workers,
            cluster=cluster,
            split=split,
            last_round=last_round,
            resident=resident,
            registers=of_lanes,
            fitted=fitted,
            roles=roles,
            auto="modulo" if auto == "modulo" else "prefetch" if auto else "",
            schedules=tuple(schedules),
        )

    def tile_order(self) -> Expr:
        self.symbols.update({known.args[0]: known for known in (INDEX, COUNT)})
        return self.bracketed()

    def memory(self) -> Memory:
        name = self.take("global")[1:]
        self.expect(":")
        dtype = self.dtype()
        self.expect("(")
        dims: list[str] = []
        shape: list[Expr] = []
        while not self.accept(")"):
            dims.append(self.take("name"))
            self.expect(":")
            shape.append(self.bracketed())
            self.accept(",")
        space: Any = self.take("name")
        role: Any = next((role for role in ("input", "output", "inout") if self.accept(role)), None)
        marks = ("staged", "mapped", "zeroed", "packed", "own")
        staged, mapped, zeroed, packed, own = (self.accept(mark) for mark in marks)
        shares = self.take("global")[1:] if self.accept("shares") else ""
        over: list[str] = []
        if self.accept("over"):
            while self.at < len(self.tokens) and self.tokens[self.at][0] == "global":
                over.append(self.take("global")[1:])
        arrangement = self.arrangement() if self.peek("[") else None
        buffers = 1
        if self.at < len(self.tokens) and re.fullmatch(r"x\d+", self.tokens[self.at][1]):
            buffers = int(self.take("name")[1:])
        start, strides = None, list[Expr]()
        if self.accept("start"):
            start = self.bracketed()
            self.expect("strides")
            strides = [self.bracketed() for _ in dims]
        arrivals = self.integer() if self.accept("arrivals") else 0
        return Memory(
            name,
            dtype,
            tuple(dims),
            tuple(shape),
            space,
            role,
            arrangement,
            buffers,
            staged,
            mapped,
            zeroed,
            arrivals,
            packed,
            own,
            shares,
            tuple(over),
            tuple(strides),
            start,
        )

    def arrangement(self) -> Arrangement:
        self.expect("[")
        digits: list[Digit] = []
        swizzle = None
        while not self.accept("]"):
            if self.accept(";"):
                swizzle = self.swizzle()
                continue
            dim = self.take("name")
            self.expect("/")
            step = self.integer()
            self.expect(":")
            extent = self.integer()
            self.expect("by")
            digits.append(Digit(dim, extent, step, self.integer()))
            self.accept(",")
        return Arrangement(tuple(digits), swizzle)

    def swizzle(self) -> Swizzle:
        self.expect("swizzle")
        column, chunk = self.take("name"), self.integer()
        self.expect("x")
        width = self.integer()
        self.expect("by")
        row = self.take("name")
        self.expect("//")
        period = self.integer()
        fold = self.integer() if self.accept("fold") else 1
        return Swizzle(row, column, chunk, width, period, fold, self.integer() if self.accept("turn") else 0)

    def dtype(self) -> DType:
        name = self.take("name")
        if name not in DTYPES:
            self.at -= 1
            raise self.fail("an element type")
        return DTYPES[name]

    def type(self) -> TileType | VectorType:
        name = self.take("name")
        if name != "tile":
            dtype, _, elements = name.partition("x")
            if dtype not in DTYPES or not elements.isdecimal():
                self.at -= 1
                raise self.fail("a type")
            return VectorType(DTYPES[dtype], int(elements))
        self.expect("<")
        dims: list[str] = []
        extents: list[int] = []
        while True:
            word = self.take("name")
            if word in DTYPES and not self.peek(":") and (self.peek(">") or self.text_at(1) == "{"):
                break
            dims.append(word)
            extents.append(self.integer() if self.accept(":") else 0)
            self.expect(",")
        layout = self.layout() if self.accept(",") else None
        self.expect(">")
        return TileType(tuple(dims), tuple(extents), DTYPES[word], layout)

    def layout(self) -> Layout:
        self.expect("{")
        base: list[tuple[str, Expr]] = []
        while not self.accept(";"):
            dim = self.take("name")
            self.expect("=")
            base.append((dim, self.expression()))
            self.accept(",")
        repeats = self.axes("|")
        inner = self.axes("}")
        return Layout(tuple(base), (*repeats, *inner), len(inner))

    def axes(self, end: str) -> tuple[RegisterAxis, ...]:
        axes: list[RegisterAxis] = []
        while not self.accept(end):
            extent = self.integer()
            self.expect("by")
            strides: list[tuple[str, int]] = []
            while not (self.peek(",") or self.peek(end)):
                strides.append((self.take("name"), self.integer()))
            axes.append(RegisterAxis(extent, tuple(strides)))
            self.accept(",")
        return tuple(axes)

    def use(self) -> Value:
        name = self.take("value")[1:]
        if name not in self.values:
            self.at -= 1
            raise self.fail("a value that is already defined")
        return self.values[name]

    def names(self) -> list[str]:
        found: list[str] = []
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "value":
            found.append(self.take("value")[1:])
            self.accept(",")
        return found

    def next_is_value_on_this_line(self) -> bool:
        """Whether an operand follows: a value on the next line is the result of the next operation."""
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "value":
            return False
        return "\n" not in self.text[self.tokens[self.at - 1][2] : self.tokens[self.at][2]]

    def op(self) -> Op:
        results = self.names()
        if results:
            self.expect("=")
        name = self.take("name")
        operands: list[Value] = []
        while self.next_is_value_on_this_line():
            operands.append(self.use())
            if not self.accept(","):
                break
        attributes = self.attributes() if self.accept("{") else []
        attributes += [pair for pair in default_attributes(name) if pair[0] not in dict(attributes)]
        attributes.sort(key=lambda pair: pair[0])
        values: list[Value] = []
        if results:
            self.expect(":")
            for position, result in enumerate(results):
                if position:
                    self.expect(",")
                values.append(Value(result, self.type()))
        region = self.region() if self.peek("(") else None
        for value in values:
            self.values[value.name] = value
        return Op(name, tuple(operands), tuple(values), tuple(attributes), region)

    def region(self) -> Region:
        self.expect("(")
        arguments: list[Value] = []
        while not self.accept(")"):
            name = self.take("value")[1:]
            self.expect(":")
            arguments.append(Value(name, self.type()))
            self.accept(",")
        self.values.update({a.name: a for a in arguments})
        self.expect("do")
        ops: list[Op] = []
        while not self.accept("yield"):
            ops.append(self.op())
        yields: list[Value] = []
        while not self.accept("end"):
            yields.append(self.use())
            self.accept(",")
        return Region(tuple(arguments), tuple(ops), tuple(yields))

    def attributes(self) -> list[tuple[str, Any]]:
        """Up to the closing brace."""
        found: list[tuple[str, Any]] = []
        while not self.accept("}"):
            key = self.take("name")
            self.expect("=")
            found.append((key, self.attribute()))
            self.accept(",")
        return found

    def attribute(self) -> Any:
        if self.peek("["):
            return self.bracketed()
        if self.peek("{"):
            return self.layout()
        if self.accept("!"):
            return self.dtype()
        if self.accept("("):
            items: list[Any] = []
            while not self.accept(")"):
                items.append(self.attribute())
                self.accept(",")
            return tuple(items)
        for word, value in (("true", True), ("false", False), ("none", None)):
            if self.accept(word):
                return value
        if self.at >= len(self.tokens):
            raise self.fail("an attribute")
        kind, text, _ = self.tokens[self.at]
        if kind == "text":
            self.at += 1
            return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        if kind == "float":
            self.at += 1
            return float(text)
        return self.integer()
