"""Steps of products whose largest score is carried, as IR text."""

from __future__ import annotations

from tests.lower.ir_text import Text
from wavespec.ir.kernel import Kernel

_HEAD = Text("""
    thread kernel @rows target sm_90 lanes 128
    symbol lane in 0..127 by 1
    symbol wave_M in 0..1 by 1
    symbol at_N in 0..960 by 64
    symbol then_N in 0..960 by 64
    plan "auto" stages 1 group 0
    wave wave_M 2
    memory @q.shared : bf16 (M: [64], D: [64]) shared staged [M/1: 64 by 64, D/1: 64 by 1; swizzle D 8 x 8 by M//1]
    memory @k.shared : bf16 (N: [64], D: [64]) shared staged [N/1: 64 by 64, D/1: 64 by 1; swizzle D 8 x 8 by N//1]
    memory @v.shared : bf16 (N: [128], D: [64]) shared staged [N/1: 128 by 64, D/1: 64 by 1; swizzle D 8 x 8 by N//1]
    memory @y : f32 (N: [4096]) global output
    memory @z : f32 (N: [4096]) global output
""")
_PRODUCT = (
    '{} = mma_async {} {{a_buffer = [0], a_major = "k", a_memory = "q.shared", a_offset = [0], b_buffer = [0], '
    'b_major = "k", b_memory = "{}.shared", b_offset = [0], instruction = "wgmma_m64n{}k16_bf16"}} : f32x{}'
)
_STEP = """
    mma_fence
    {product}
    mma_commit
    %p{n} = mma_wait %s{n} {{pending = 0}} : f32x32
    %own{n} = reduce %p{n} {{function = "maximum"}} : f32x1
    %near{n} = shuffle %own{n} {{bits = 1}} : f32x1
    %two{n} = elementwise %own{n}, %near{n} {{function = "maximum"}} : f32x1
    %far{n} = shuffle %two{n} {{bits = 2}} : f32x1
    %top{n} = elementwise %two{n}, %far{n} {{function = "maximum"}} : f32x1
    %larger{n} = elementwise %largest{n}, %top{n} {{function = "maximum"}} : f32x1
    %highest{n} = elementwise %larger{n}, %least {{function = "maximum"}} : f32x1
    %less{n} = elementwise %largest{n}, %highest{n} {{function = "sub"}} : f32x1
    %times{n} = elementwise %less{n}, %rate {{function = "mul"}} : f32x1
    %shrink{n} = elementwise %times{n} {{function = "exp2"}} : f32x1
    %base{n} = elementwise %highest{n}, %rate {{function = "mul"}} : f32x1
    %bases{n} = broadcast %base{n} : f32x32
    %rests{n} = elementwise %p{n}, %bases{n} {{function = "sub"}} : f32x32
    %power{n} = elementwise %rests{n} {{function = "exp2"}} : f32x32
    %mine{n} = reduce %power{n} {{function = "add"}} : f32x1
    %beside{n} = shuffle %mine{n} {{bits = 1}} : f32x1
    %pair{n} = elementwise %mine{n}, %beside{n} {{function = "add"}} : f32x1
    %across{n} = shuffle %pair{n} {{bits = 2}} : f32x1
    %part{n} = elementwise %pair{n}, %across{n} {{function = "add"}} : f32x1
    %kept{n} = elementwise %total{n}, %shrink{n} {{function = "mul"}} : f32x1
    %sum{n} = elementwise %kept{n}, %part{n} {{function = "add"}} : f32x1
    {sums}
    %factors{n} = broadcast %shrink{n} : f32x{wide}
    %scaled{n} = elementwise %a{n}, %factors{n} {{function = "mul"}} : f32x{wide}
    yield %highest{n}, %sum{n}, %scaled{n}
"""


def rows(behind: str = "", between: str = "", sums: int = 128) -> Kernel:
    """Two loops of steps of 64 scores for each row; ``behind``: what uses their results; ``between``: more operations
    between them; ``sums``: how many of a row products add to."""
    kernel = f"""
%low = constant {{value = -inf}} : f32x1
%least = constant {{value = -3.0e+38}} : f32x1
%rate = constant {{value = 0.5}} : f32x1
%none = constant {{value = 0.0}} : f32x1
%nothing = constant {{value = 0.0}} : f32x32
%empty = constant {{value = 0.0}} : f32x{sums // 2}
{_loop(1, "at_N", "%low, %none, %empty", sums)}
{between}
{_loop(2, "then_N", "%h1, %t1, %c1", sums)}
store %t2 {{memory = "y", offset = [lane]}}
{behind}
"""
    return _HEAD.kernel(kernel)


def _loop(n: int, counter: str, start: str, sums: int) -> str:
    wide = sums // 2
    scores = _PRODUCT.format(f"%s{n}", "%nothing", "k", 64, 32)
    product = _PRODUCT.format(f"%u{n}", f"%acc{n}", "v", sums, wide)
    waited = f"mma_commit\n%a{n} = mma_wait %u{n} {{pending = 0}} : f32x{wide}"
    step = _STEP.format(n=n, product=scores, sums=f"mma_fence\n{product}\n{waited}", wide=wide)
    head = f'{{induction = "{counter}", lower = [0], step = [64], unroll = 1, upper = [1024]}}'
    carried = f"%largest{n} : f32x1, %total{n} : f32x1, %acc{n} : f32x{wide}"
    return f"%h{n}, %t{n}, %c{n} = for {start} {head} : f32x1, f32x1, f32x{wide} ({carried}) do\n{step}\nend"
