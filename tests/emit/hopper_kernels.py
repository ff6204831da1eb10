"""Hand-written thread kernels of specialised waves, as the passes make them: text of the IR."""

from __future__ import annotations

from wavespec.emit.interface import expr_to_size
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.runtime.artifact import Dim, KernelArtifact, TensorParameter

ROWS, COLUMNS, DEPTH, STAGES = 128, 256, 64, 4


def specialised_gemm(dtype: str = "bf16", processors: int = 132) -> Kernel:
    """C = A · Bᵀ in 16-bit floats, K a multiple of 8: one wave copies, two multiply 64 x 256 each, 4 stages.

    A workgroup per processor walks over the tiles; results leave through two slabs of 64 columns per wave.
    """
    tiles = f"(M + {ROWS - 1})//{ROWS}*((N + {COLUMNS - 1})//{COLUMNS})"
    grid = f"min({tiles}, {processors})"
    steps = f"((K + {DEPTH - 1})//{DEPTH})"
    turn = f"((tile - workgroup)//{grid}*{steps} + at_K//{DEPTH})"
    last = f"((tile - workgroup)//{grid}*{steps} + {steps} - 1)"
    place = "\n".join(
        (
            f'let {{symbol = "wg0", value = [tile % ((M + {ROWS - 1})//{ROWS})]}}',
            f'let {{symbol = "wg1", value = [tile//((M + {ROWS - 1})//{ROWS})]}}',
        )
    )
    loop = f'induction = "tile", lower = [workgroup], step = [{grid}], unroll = 1, upper = [{tiles}]'
    inner = f'induction = "at_K", lower = [0], step = [{DEPTH}], unroll = 1, upper = [K]'
    bytes_ = (ROWS + COLUMNS) * DEPTH * 2
    row = f"wgmma_m64n{COLUMNS}k16_{dtype}"
    products = "\n".join(
        f"%acc.{k + 1} = mma_async %acc.{k} {{"
        f'a_buffer = [{turn} % {STAGES}], a_major = "k", a_memory = "a.shared", a_offset = [wave_M*4096 + {16 * k}], '
        f'b_buffer = [{turn} % {STAGES}], b_major = "k", b_memory = "b.shared", b_offset = [{16 * k}], '
        f'instruction = "{row}"}} : f32x{COLUMNS // 2}'
        for k in range(DEPTH // 16)
    )
    return parse_kernel(f"""
thread kernel @gemm target sm_90 lanes 128
symbol M in 1..2147483647 by 1
symbol N in 8..2147483647 by 8
symbol K in 8..2147483647 by 8
symbol workgroup in 0..{processors - 1} by 1
symbol tile in 0..2147483647 by 1
symbol wg0 in 0..16777215 by 1
symbol wg1 in 0..16777215 by 1
symbol at_K in 0..2147483647 by {DEPTH}
symbol lane in 0..127 by 1
symbol wave_M in 0..1 by 1
plan "{row}" stages {STAGES} group 0 persistent roles 1 together 40 232
wave wave_M 2
producers 1
grid [{grid}]
memory @a : {dtype} (M: [M], K: [K]) global input
memory @b : {dtype} (N: [N], K: [K]) global input
memory @c : {dtype} (M: [M], N: [N]) global output
memory @a.shared : {dtype} (M: [{ROWS}], K: [64]) shared [M/1: {ROWS} by 64, K/1: 64 by 1; swizzle K 8 x 8 by M//1] x4
memory @b.shared : {dtype} (N: [{COLUMNS}], K: [64]) shared [N/1: {COLUMNS} by 64, K/1: 64 by 1; swizzle K 8 x 8 by N//1] x4
memory @c.shared : {dtype} (M: [{ROWS}], N: [64]) shared [M/1: {ROWS} by 64, N/1: 64 by 1; swizzle N 8 x 8 by M//1] x2
memory @k_loop.full : i64 () signal x{STAGES} arrivals 1
memory @k_loop.empty : i64 () signal x{STAGES} arrivals 2
{{
role {{first = [2], registers = 40, waves = 1}} () do
  if {{mask = (([lane], [1],),)}} () do
    for {{{loop}}} () do
      {place}
      for {{{inner}}} () do
        signal_wait {{index = [{turn} % {STAGES}], phase = [1 - {turn}//{STAGES} % 2], signal = "k_loop.empty"}}
        signal_arrive {{bytes = {bytes_}, index = [{turn} % {STAGES}], signal = "k_loop.full"}}
        bulk_copy {{box = ({ROWS}, 64,), buffer = [{turn} % {STAGES}], index = [{turn} % {STAGES}], memory = "a.shared",
          offset = [0], corner = ([wg0*{ROWS}], [at_K],), signal = "k_loop.full", source = "a"}}
        bulk_copy {{box = ({COLUMNS}, 64,), buffer = [{turn} % {STAGES}], index = [{turn} % {STAGES}], memory = "b.shared",
          offset = [0], corner = ([wg1*{COLUMNS}], [at_K],), signal = "k_loop.full", source = "b"}}
        yield
      end
      yield
    end
    yield
  end
  yield
end
role {{first = [0], registers = 232, waves = 2}} () do
  for {{{loop}}} () do
    {place}
    %zero = constant {{value = 0.0}} : f32x{COLUMNS // 2}
    %acc = for %zero {{{inner}}} : f32x{COLUMNS // 2} (%acc.0 : f32x{COLUMNS // 2}) do
      signal_wait {{index = [{turn} % {STAGES}], phase = [{turn}//{STAGES} % 2], signal = "k_loop.full"}}
      mma_fence
      {products}
      mma_commit
      mma_wait {{pending = 1}}
      if {{mask = (([lane], [1],), ([0], [at_K],),)}} () do
        signal_arrive {{bytes = 0, index = [({turn} - 1) % {STAGES}], signal = "k_loop.empty"}}
        yield
      end
      yield %acc.{DEPTH // 16}
    end
    %done = mma_wait %acc {{pending = 0}} : f32x{COLUMNS // 2}
    if {{mask = (([lane], [1],),)}} () do
      signal_arrive {{bytes = 0, index = [{last} % {STAGES}], signal = "k_loop.empty"}}
      yield
    end
    {_epilogue(dtype)}
    yield
  end
  if {{mask = (([lane], [1],),)}} () do
    bulk_wait {{pending = 0}}
    yield
  end
  yield
end
}}
""")


def _epilogue(dtype: str) -> str:
    """Slab after slab of 64 columns: registers to shared memory, and from there a box at a time."""
    lines = [f"%out = cast %done : {dtype}x{COLUMNS // 2}"]
    meet = "barrier {first = [wave_M], waves = 1}"
    row = "(lane//32*16 + lane % 16)"
    for slab in range(COLUMNS // 64):
        lines += ["if {mask = (([lane], [1],),)} () do", "bulk_wait {pending = 1}", "yield", "end", meet]
        for pair in range(4):
            chunk = f"xor(lane//16 % 2 + {2 * pair}, {row} % 8)"
            name = f"%part.{slab}.{pair}"
            lines.append(f"{name} = slice %out {{size = 8, start = {slab * 32 + pair * 8}}} : {dtype}x8")
            lines.append(
                f'store_matrix {name} {{buffer = [{slab % 2}], count = 4, memory = "c.shared", '
                f"offset = [wave_M*4096 + {row}*64 + {chunk}*8]}}"
            )
        lines += [
            "fence_async",
            meet,
            "if {mask = (([lane], [1],),)} () do",
            f'bulk_store {{box = (64, 64,), buffer = [{slab % 2}], memory = "c.shared", offset = [wave_M*4096], '
            f'corner = ([wg0*{ROWS} + wave_M*64], [wg1*{COLUMNS} + {slab * 64}],), target = "c"}}',
            "bulk_commit",
            "yield",
            "end",
        ]
    return "\n".join(lines)


def single_product(row: str, dtype: str, n: int, k: int, *, registers: bool = False, major: str = "k") -> Kernel:
    """acc[64, n] = a[64, D] · b[n, D]ᵀ of one wave, D = 128 bytes of elements: tiles of one bulk copy each.

    Args:
        k: of the instruction.
        registers: whether ``a`` is loaded to registers first, instead of read from shared memory.
        major: the contiguous dim of both tensors, ``k`` or ``mn`` (16-bit elements, n a multiple of 64).
    """
    element_bytes = {"f32": 4, "bf16": 2, "f16": 2}.get(dtype, 1)
    depth, total = 128 // element_bytes, "i32" if dtype == "i8" else "f32"
    chunk = 16 // element_bytes
    copies: list[str] = []
    memories: list[str] = []
    for name, dim, extent in (("a", "M", 64), ("b", "N", n)):
        if major == "k":
            shape = f"({dim}: [{extent}], K: [{depth}])"
            digits = f"{dim}/1: {extent} by {depth}, K/1: {depth} by 1; swizzle K {chunk} x 8 by {dim}//1"
            boxes = [("0", f"({extent}, {depth},)", "([0], [0],)")]
        else:
            shape = f"(K: [{depth}], {dim}: [{extent}])"
            digits = f"{dim}/64: {extent // 64} by {64 * depth}, K/1: {depth} by 64, {dim}/1: 64 by 1; swizzle {dim} 8 x 8 by K//1"
            boxes = [(str(i * 64 * depth), f"({depth}, 64,)", f"([0], [{64 * i}],)") for i in range(extent // 64)]
        memories += [
            f"memory @{name} : {dtype} {shape} global input",
            f"memory @{name}.shared : {dtype} {shape} shared [{digits}]",
        ]
        copies += [
            f'bulk_copy {{box = {box}, buffer = [0], index = [0], memory = "{name}.shared", offset = [{offset}], '
            f'corner = {origin}, signal = "ready", source = "{name}"}}'
            for offset, box, origin in boxes
        ]
    products: list[str] = []
    step = k if major == "k" else 64 * k
    for number in range(depth // k):
        right = f'b_buffer = [0], b_major = "{major}", b_memory = "b.shared", b_offset = [{step * number}]'
        if registers:
            elements = 64 * k // 128
            words = f'%a.{number} = load {{memory = "a", offset = [lane*{depth} + {k * number}]}} : {dtype}x{elements}'
            products.append(words)
            head = f"%acc.{number + 1} = mma_async %a.{number}, %acc.{number} {{"
        else:
            head = (
                f'%acc.{number + 1} = mma_async %acc.{number} {{a_buffer = [0], a_major = "{major}", '
                f'a_memory = "a.shared", a_offset = [{step * number}], '
            )
        products.append(f'{head}{right}, instruction = "{row}"}} : {total}x{n // 2}')
    loads = "\n".join(line for line in products if " load " in line)
    body = "\n".join(line for line in products if " load " not in line)
    stores = "\n".join(
        f"%out.{i} = slice %done {{size = 1, start = {i}}} : {total}x1\n"
        f'store %out.{i} {{memory = "c", offset = [lane*{n // 2} + {i}]}}'
        for i in range(n // 2)
    )
    lines = "\n".join(copies)
    return parse_kernel(f"""
thread kernel @product target sm_90 lanes 128
symbol lane in 0..127 by 1
plan "{row}" stages 1 group 0
grid [1]
{chr(10).join(memories)}
memory @c : {total} (lane: [128], register: [{n // 2}]) global output
memory @ready : i64 () signal arrivals 1
{{
{loads}
if {{mask = (([lane], [1],),)}} () do
  signal_arrive {{bytes = {(64 + n) * 128}, index = [0], signal = "ready"}}
  {lines}
  yield
end
signal_wait {{index = [0], phase = [0], signal = "ready"}}
%acc.0 = constant {{value = {"0" if total == "i32" else "0.0"}}} : {total}x{n // 2}
mma_fence
{body}
mma_commit
%done = mma_wait %acc.{depth // k} {{pending = 0}} : {total}x{n // 2}
{stores}
}}
""")


def interface_of(kernel: Kernel) -> KernelArtifact:
    """What launches the kernel, without binaries."""
    tensors = tuple(
        TensorParameter(
            memory.name,
            memory.dtype.name,
            tuple(e.value if e.is_const else dim for dim, e in zip(memory.dims, memory.shape, strict=True)),
            memory.role == "output",
        )
        for memory in kernel.memories
        if memory.space == "global"
    )
    names = dict.fromkeys(dim for tensor in tensors for dim in tensor.dims if isinstance(dim, str))
    grid = [*(expr_to_size(extent) for extent in kernel.grid), 1, 1][:3]
    return KernelArtifact(
        name=kernel.name,
        target=kernel.target,
        backend="cuda",
        architecture="sm_90a",
        entry_point=kernel.name,
        tensors=tensors,
        dims=tuple(Dim(name) for name in names),
        grid=(grid[0], grid[1], grid[2]),
        workgroup_size=(kernel.threads, 1, 1),
        binaries=(),
    )
