"""What shares bytes is announced where its byte is."""

from __future__ import annotations

from tests.lower.ir_text import Text, body_text
from wavespec.emit.memory_to_bytes import memory_to_bytes

TENSORS = Text("""
    thread kernel @k target cpu lanes 1
    symbol K in 0..4096 by 64
    plan "auto" stages 1 group 0
    size K [K]
    memory @codes : i4 (K: [K]) global input
    memory @words : bf16 (K: [K]) global input
""")


def test_announced_elements_are_at_their_bytes() -> None:
    kernel = TENSORS.kernel("""
      prefetch {memory = "codes", offset = [K*2 + 128]}
      prefetch {memory = "words", offset = [K*2 + 128]}
    """)
    codes, words = (line.strip() for line in body_text(memory_to_bytes(kernel)).strip().splitlines())
    assert codes == 'prefetch {memory = "codes", offset = [K + 64]}'
    assert words == 'prefetch {memory = "words", offset = [K*2 + 128]}'
