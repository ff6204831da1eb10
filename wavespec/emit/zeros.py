"""Memory of a workgroup of a CPU: what accesses of nothing read in place of a tensor."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText

ROW_OF_ZEROS = 2048
"""Bytes of a row that products may read: 512 elements of f32."""
_LOCAL = "#iree_codegen.workgroup_local"


class Zeros:
    """Addresses of zeros, which are made in front of everything when the first of them is asked for.

    Args:
        bytes_: of those that accesses which differ in what they check read.
    """

    def __init__(self, text: MlirText, bytes_: int) -> None:
        self.text, self.bytes = text, bytes_
        self._made: dict[int, str] = {}

    def address(self) -> str:
        return self._of(self.bytes)

    def row(self) -> str:
        """The address of a whole row of them."""
        return self._of(ROW_OF_ZEROS)

    def _of(self, bytes_: int) -> str:
        if bytes_ not in self._made:
            buffer, type_ = local_memory(self.text, bytes_, "i8", 0)
            vector = f"vector<{bytes_}xi8>"
            value = self.text.op(f"arith.constant dense<0> : {vector}", 0)
            start = self.text.op("arith.constant 0 : index", 0)
            self.text.do(f"vector.store {value}, {buffer}[{start}] : {type_}, {vector}", 0)
            self._made[bytes_] = self.text.address(buffer, type_, depth=0)
        return self._made[bytes_]


def local_memory(text: MlirText, elements: int, element: str, depth: int | None = None) -> tuple[str, str]:
    """Memory of a workgroup as a ``memref``, and the type of that."""
    type_ = f"memref<{elements}x{element}, {_LOCAL}>"
    how = "<{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}>"
    return text.op(f'"memref.alloc"() {how} : () -> {type_}', depth), type_
