"""A `for` of a thread kernel goes in; a loop that counts, one that may end early, or a branch comes out, with what it
carries in the parts that the machine computes with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from wavespec.emit.function import Emitter, Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.registers import Part, Parts, vector_type
from wavespec.ir.expr import Expr, const, maximum, minimum
from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import FOR, MMA, MMA_ASYNC

Sizes = list[list[int]]
"""Elements in each part of each carried value."""

AS_SCHEDULED = " {llvm.loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}"
"""Has LLVM leave the steps of a loop as they are."""


class Loops(Emitter):
    """Loops and branches.

    Args:
        attribute: of loops that count.
        end_body: writes what the machine wants at the end of the body of such a loop.
        same_in_wave: has a number that all lanes of a wave have, which all of them compute at a depth, in the registers
            that they have together, where there are such.
    """

    def __init__(
        self,
        function: Function,
        lanes: LaneOperations,
        *,
        attribute: str = "",
        end_body: Callable[[Op], None] = lambda op: None,
        same_in_wave: Callable[[str, int], str] | None = None,
    ) -> None:
        super().__init__(function)
        self.lanes, self.attribute, self.end_body, self.same_in_wave = lanes, attribute, end_body, same_in_wave

    def emit_if(self, op: Op) -> None:
        with self.function.when(op["mask"]):
            self.function.block(op.body.ops)

    def emit_for(self, op: Op) -> None:
        """``once`` makes a branch of it, and one with ``goes_on`` may end early."""
        if op.get("once"):
            self._branch(op)
        elif op.get("goes_on") is not None:
            self._ending(op)
        else:
            self._counting(op)

    def counter_bits(self, op: Op) -> int:
        """Of the counter of a loop: enough for the number that ends it, which may be a step beyond the last one."""
        beyond = (op["upper"] + op["step"]).high
        return self.function.index_bits if beyond is None or beyond < 2**31 else 64

    def _bounds(self, op: Op) -> tuple[int, str, str, str]:
        """Bits of the counter, where it begins, where it ends, and its step.

        What a counter is known to be at most fits in fewer bits than what its ends are computed of: these are brought
        between the least number and a step beyond the largest one, which changes no step.
        """
        bits, lower, upper, step = self.counter_bits(op), op["lower"], op["upper"], op["step"]
        if self._ends_are_wide:
            counter = self.function.kernel.symbol(op["induction"])
            if bits == 64 and counter.low is not None and counter.high is not None and step.is_const:
                least, most = const(counter.low), const(counter.high + step.value)
                if least.value >= -(2**31) and most.value + step.value < 2**31:
                    bits = self.function.index_bits
                    lower, upper = (minimum(maximum(end, least), most) for end in (lower, upper))
            if bits == 32 and _products(op):
                return bits, self._of_wave(lower), self._of_wave(upper), self.indices.integer(step, bits)
        begin, end, by = (self.indices.integer(one, bits) for one in (lower, upper, step))
        return bits, begin, end, by

    @cached_property
    def _ends_are_wide(self) -> bool:
        """Whether ends of some loop of products are computed in 64 bits, where waves have registers for all of their
        lanes: the assembler leaves to each lane what depends on such a comparison, with it the buffers and descriptors
        that this loop and those behind it count.

        Of workgroups that stay, one on a processor: where several are, one multiplies while another computes its ends,
        and to join these took more than it saved.  And of steps with several products: with the one of factors that are
        decoded in registers the assembler serialised these (C7513).
        """
        kernel, plan = self.function.kernel, self.function.kernel.distribution
        alone = plan.persistent and self.function.machine.workgroups_together(plan.workers) == 1
        if self.same_in_wave is None or not alone:
            return False
        loops = (op for op in kernel.walk() if op.is_(FOR) and len(_products(op)) > 1)
        return any(self.counter_bits(op) == 64 for op in loops)

    def _of_wave(self, expr: Expr) -> str:
        same = self.same_in_wave
        assert same is not None
        return self.indices.once("of wave", expr, lambda depth: same(self.indices.integer(expr, 32), depth))

    def _counting(self, op: Op) -> None:
        text, indices = self.text, self.indices
        bits, lower, upper, step = self._bounds(op)
        sizes = self._sizes(op)
        first, types = _names(self._parts(op.operands, sizes)), _types(op, sizes)
        induction = text.name()
        text.open()
        indices.open()
        indices.define(op["induction"], self._hidden(induction, bits) if op.get("rare") else induction, bits)
        arguments = [text.name() for _ in types]
        self._define(op.body.arguments, arguments, sizes)
        self.function.block(op.body.ops)
        text.span = op.span
        self.end_body(op)
        last = _names(self._parts(op.body.yields, sizes))
        if types:
            text.do(f"scf.yield {', '.join(last)} : {', '.join(types)}")
        indices.close()
        lines = text.close()
        result = text.name()
        head = f"scf.for {induction} = {lower} to {upper} step {step}"
        if types:
            carried = ", ".join(f"{name} = {start}" for name, start in zip(arguments, first, strict=True))
            head = f"{result}:{len(types)} = {head} iter_args({carried}) -> ({', '.join(types)})"
        text.blocks[-1] += [f"{head}  : i{bits} {{", *lines]
        text.do(f"}}{self._annotation(op)}")
        self._define(op.results, [f"{result}#{number}" for number in range(len(types))], sizes)

    def _annotation(self, op: Op) -> str:
        """Of a loop that counts; steps whose loads are for later ones are written out, so that no value moves, and as many
        of products as their instruction says."""
        rows = [self.function.product_of(one)[0] for one in op.body.ops if one.is_(MMA)]
        steps = op["unroll"] if self.attribute else max((row.unroll for row in rows), default=1)
        if steps > 1:
            return f" {{llvm.loop_annotation = #llvm.loop_annotation<unroll = <count = {steps} : i32>>}}"
        return self.attribute

    def _hidden(self, counter: str, bits: int) -> str:
        """The same number, of which the compiler does not know that it is 0 in a loop of one step, so that it computes
        nothing of it around the loop."""
        code = 'has_side_effects asm_dialect = att "", "=r,0"'
        return self.text.op(f"llvm.inline_asm {code} {counter} : (i{bits}) -> i{bits}")

    def _ending(self, op: Op) -> None:
        """`scf.while` of the counter, of whether the loop goes on, which its symbols say anew at the end of the body, and
        of what is carried."""
        text, indices, asked = self.text, self.indices, ((const(0), op["goes_on"]),)
        bits = self.counter_bits(op)
        lower, upper, step = (indices.integer(op[key], bits) for key in ("lower", "upper", "step"))
        enters = indices.holds(asked)
        sizes = self._sizes(op)
        first, types = _names(self._parts(op.operands, sizes)), _types(op, sizes)
        at, goes_on, asked_of = text.name(), text.name(), [text.name() for _ in types]
        counter, arguments = text.name(), [text.name() for _ in types]
        text.open()
        indices.open()
        indices.define(op["induction"], counter, bits)
        self._define(op.body.arguments, arguments, sizes)
        self.function.block(op.body.ops)
        text.span = op.span
        last = _names(self._parts(op.body.yields, sizes))
        still = indices.holds(asked)
        following = text.op(f"arith.addi {counter}, {step} : i{bits}")
        kinds, kept = ", ".join((f"i{bits}", "i1", *types)), ", ".join((f"i{bits}", *types))
        text.do(f"scf.yield {', '.join((following, still, *last))} : {kinds}")
        indices.close()
        body = text.close()

        text.open()
        inside = text.op(f"arith.cmpi slt, {at}, {upper} : i{bits}")
        more = text.op(f"arith.andi {inside}, {goes_on} : i1")
        text.do(f"scf.condition({more}) {', '.join((at, *asked_of))} : {kept}")
        before = text.close()

        result = text.name()
        starts = zip((at, goes_on, *asked_of), (lower, enters, *first), strict=True)
        given = ", ".join(f"{name} = {start}" for name, start in starts)
        carried = ", ".join(
            f"{name}: {kind}" for name, kind in zip((counter, *arguments), (f"i{bits}", *types), strict=True)
        )
        head = f"{result}:{1 + len(types)} = scf.while ({given}) : ({kinds}) -> ({kept}) {{"
        text.blocks[-1] += [head, *before, "} do {", f"^bb0({carried}):", *body]
        text.do("}")
        self._define(op.results, [f"{result}#{1 + number}" for number in range(len(types))], sizes)

    def _branch(self, op: Op) -> None:
        """What it does not change has the value from before."""
        text, indices = self.text, self.indices
        condition = indices.holds(((op["lower"], op["upper"]),))
        sizes = self._sizes(op)
        types, before = _types(op, sizes), self._parts(op.operands, sizes)
        text.open()
        indices.open()
        indices.define(op["induction"], text.constant(0, "i32"), 32)
        self.values.update(zip((value.name for value in op.body.arguments), before, strict=True))
        self.function.block(op.body.ops)
        text.span = op.span
        after = self._parts(op.body.yields, sizes)
        indices.close()
        result = text.name()
        if not types:
            text.branch(condition, text.close())
            return
        text.do(f"scf.yield {', '.join(_names(after))} : {', '.join(types)}")
        otherwise = [f"scf.yield {', '.join(_names(before))} : {', '.join(types)} {text.location()}"]
        text.branch(condition, text.close(), otherwise, head=f"{result}:{len(types)} = ", types=types)
        self._define(op.results, [f"{result}#{number}" for number in range(len(types))], sizes)

    def _sizes(self, op: Op) -> Sizes:
        return [self.lanes.native_sizes(value.vector.dtype, value.vector.elements) for value in op.operands]

    def _parts(self, values: Sequence[Value], sizes: Sizes) -> list[Parts]:
        return [self.function.parts(value, wanted) for value, wanted in zip(values, sizes, strict=True)]

    def _define(self, values: Sequence[Value], names: Sequence[str], sizes: Sizes) -> None:
        """Let values be made of parts of these names."""
        following = iter(names)
        for value, wanted in zip(values, sizes, strict=True):
            self.values[value.name] = tuple(Part(next(following), size) for size in wanted)


def _types(op: Op, sizes: Sizes) -> list[str]:
    pairs = zip(op.operands, sizes, strict=True)
    return [vector_type(value.vector.dtype, size) for value, wanted in pairs for size in wanted]


def _names(values: Iterable[Parts]) -> list[str]:
    return [part.name for parts in values for part in parts]


def _products(op: Op) -> set[str]:
    """Nodes of which a step of a loop has products that all lanes of a wave make together."""
    return {one.node for one in op.body.ops if one.is_(MMA_ASYNC)}
