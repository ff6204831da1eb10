"""The specs of this folder: with which sizes, inputs and scalars they are tested, and when a result is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from tests.kernels import Draw, Maker, Row, check_output, extent, lengths, make_inputs, numbers
from tests.specs import references
from wavespec.ir.strided import numbers_of_tensor
from wavespec.schema import KernelSpec, load
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.reference import numbers_of_scalars

Number = bool | int | float


@dataclass(frozen=True, eq=False)
class Trial:
    """A spec and a call of it; `special` has makers of inputs by name, where normal numbers do not do."""

    name: str
    given: Mapping[str, int]
    """Sizes of dims that do not follow from others."""
    scalars: Mapping[str, Number] = field(default_factory=dict[str, Number])
    special: Mapping[str, Maker] = field(default_factory=dict[str, Maker])

    @property
    def spec(self) -> KernelSpec:
        return _spec(self.name)

    @property
    def numbers(self) -> dict[str, Number]:
        """Of all scalars."""
        return numbers_of_scalars(self.spec, self.given, self.scalars)

    @property
    def sizes(self) -> dict[str, int]:
        """Of all dims, and the integer scalars that some follow from."""
        whole = {name: int(one) for name, one in self.numbers.items() if not self.spec.scalars[name].is_float}
        return complete_sizes(self.spec, {**whole, **self.given})

    def for_target(self, target: str) -> KernelSpec:
        """The case that the call gets."""
        return case_for_sizes(cases_for_target(self.spec, target), self.sizes).spec

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The same every time, in the order of a call."""
        parameters = [
            (name, tensor.dtype, tuple(extent(self.spec, dim, self.sizes) for dim in tensor.shape))
            for name, tensor in self.spec.tensors.items()
            if tensor.role != "output"
        ]
        return make_inputs(Row(small=(), special=self.special), parameters, self.sizes, whole=False)

    @property
    def numbers_of_views(self) -> dict[str, int]:
        """Offsets and strides of tensors that may be views: here they are dense."""
        found: dict[str, int] = {}
        given = [item for item in self.spec.tensors.items() if item[1].role != "output"]
        for (name, tensor), x in zip(given, self.inputs, strict=True):
            if tensor.is_strided:
                found |= numbers_of_tensor(name, tensor.shape, x.shape, x.stride(), 0, x.element_size())
        return found

    @property
    def written(self) -> list[str]:
        """What a call gives: the tensors that it changes in place, then the outputs."""
        tensors = self.spec.tensors.items()
        return [name for role in ("inout", "output") for name, tensor in tensors if tensor.role == role]

    def check(self, results: Sequence[Tensor]) -> None:
        """Assert that `results` are right, and err at most twice as much as torch in the same types."""
        meaning = getattr(references, self.name)
        exact = meaning(*(x.double() if x.is_floating_point() else x for x in self.inputs), **self.numbers)
        own = meaning(*self.inputs, **self.numbers)
        for name, result, right, theirs in zip(self.written, results, exact, own, strict=True):
            if self.name == "add_norm_quantize" and name == "y":
                _check_rounded(result, right)
            else:
                check_output(Row(small=()), name, result, right, theirs, whole=False)


def _check_rounded(result: Tensor, right: Tensor) -> None:
    """Nearest integers; what is half way between two, but for the precision of f32, is either of them."""
    assert result.dtype is torch.int8
    off = (result.double() - right).abs().max()
    assert off < 0.5001, f"an element is {off} from its number"


@cache
def _spec(name: str) -> KernelSpec:
    return load(Path(__file__).with_name(f"{name}.wave.yaml"))


def _gates(draw: Draw) -> Tensor:
    """Logarithms of factors below 1."""
    return torch.nn.functional.logsigmoid(numbers(draw) + 2)


def _recurrent(draw: Draw) -> Tensor:
    """Weights that keep what a state is about as large as it was."""
    return numbers(draw) / draw.shape[-1] ** 0.5


def _positive_definite(draw: Draw) -> Tensor:
    root = torch.randn(draw.shape, generator=draw.random)
    return root @ root.mT + 16 * torch.eye(16)


def _lower(draw: Draw) -> Tensor:
    return torch.randn(draw.shape, generator=draw.random).tril(-1) / 4 + 2 * torch.eye(16)


def _masked(draw: Draw) -> Tensor:
    """Some keys are left out, never all."""
    return torch.where(torch.arange(draw.shape[-1]) % 3 == 1, -1e9, 0).expand(draw.shape).to(draw.dtype)


def _slots(draw: Draw) -> Tensor:
    """Different places, and tokens that have none."""
    places = torch.randperm(draw.sizes["P"] * draw.sizes["S"], generator=draw.random)[: draw.shape[0]]
    return places.masked_fill(torch.arange(draw.shape[0]) % 4 == 2, -1).to(draw.dtype)


def _flags(draw: Draw) -> Tensor:
    """A row without any, one with all, and some in each of the others."""
    flags = torch.randint(0, 50, draw.shape, generator=draw.random) == 0
    flags[0], flags[1] = False, True
    return flags


TRIALS = [
    Trial("attention_capped_window", {"B": 1, "H": 4, "G": 2, "M": 19, "N": 150, "D": 24, "E": 16}, {"scale": 0.3}),
    Trial(
        "attention_evoformer", {"B": 1, "R": 3, "H": 2, "M": 21, "N": 37, "D": 24, "E": 16}, special={"mask": _masked}
    ),
    Trial(
        "attention_latent_decode", {"B": 2, "H": 5, "N": 45, "D": 80}, {"scale": 0.11}, {"count": lengths("N", least=1)}
    ),
    Trial("attention_talking_heads", {"B": 2, "M": 19, "N": 45, "D": 24, "E": 16}),
    Trial("add_norm_quantize", {"M": 5, "N": 75}),
    Trial("causal_conv1d", {"B": 2, "T": 21, "C": 37}),
    Trial("gated_linear_attention_steps", {"B": 1, "H": 2, "T": 13, "D": 24, "E": 11}, special={"g": _gates}),
    Trial("gated_linear_attention_chunks", {"B": 1, "H": 2, "T": 75, "D": 24, "E": 11}, special={"g": _gates}),
    Trial("gru", {"B": 5, "T": 7, "H": 24}, special={"u": _recurrent}),
    Trial("rg_lru", {"B": 2, "T": 19, "D": 37}),
    Trial("mamba2_steps", {"B": 2, "T": 13, "H": 2, "P": 11, "N": 24}, special={"rate": _gates}),
    Trial("mamba2_chunks", {"B": 1, "T": 75, "H": 2, "P": 11, "N": 24}, special={"rate": _gates}),
    Trial("rms_norm_backward", {"M": 11, "N": 75}),
    Trial("rms_norm_backward_weight", {"M": 75, "N": 70}),
    Trial("sample_top_p", {"M": 7, "N": 300}, {"seed": 5, "temperature": 0.7, "top_p": 0.6, "min_p": 0.02}),
    Trial("matmul_blocked", {"M": 37, "G": 5, "K": 96}),
    Trial("conv_transpose2d", {"N": 2, "H": 5, "W": 7, "C": 6, "O": 9}),
    Trial("conv_transpose2d_taps", {"N": 2, "H": 5, "W": 7, "C": 6, "O": 9}),
    Trial("max_pool2d", {"N": 2, "C": 3, "H": 13, "W": 18}),
    Trial("upsample_bilinear2d", {"N": 2, "C": 3, "H": 7, "W": 9}, {"height": 12, "width": 21}),
    Trial("cholesky16", {"B": 7}, special={"a": _positive_definite}),
    Trial("triangular_solve16", {"B": 3, "N": 21}, special={"l": _lower}),
    Trial("route_experts", {"T": 11, "X": 41}),
    Trial("route_tokens", {"T": 21, "D": 72}),
    Trial(
        "align_experts",
        {"A": 100, "P": 1100},
        special={"experts": lambda draw: draw.integers(0, 64), "places": lambda draw: draw.integers(100, 101)},
    ),
    Trial("fused_chain", {"M": 9, "N": 75}, {"seed": 7, "p": 0.25}),
    Trial("sort_rows", {"M": 3, "N": 37}),
    Trial("cache_write", {"T": 9, "H": 3, "D": 20, "P": 7, "S": 4}, special={"slot": _slots}),
    Trial("nearest_code", {"M": 37, "N": 150, "K": 40}),
    Trial("covariance", {"N": 75, "D": 37}),
    Trial("kronecker", {"A": 3, "B": 5, "P": 7, "Q": 19}),
    Trial("linear_attention", {"M": 37, "N": 75, "D": 40, "E": 24}),
    Trial("row_flags", {"M": 9, "N": 300}, special={"x": _flags}),
    Trial("linear_lora", {"M": 19, "N": 37, "K": 75, "R": 9}, {"alpha": 0.5}),
]
