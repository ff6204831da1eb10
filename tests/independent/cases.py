"""Cases of others: torch's own samples and ONNX's node tests in; a plan and the right result of each, or why it is left out.

IREE's shapes of matrix products are a list here: its tests are made by a generator, from these.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.independent.onnx_calls import onnx_call
from tests.independent.plan import LeftOut, Plan
from tests.independent.plans import OPERATORS, RANKED, plan

_OPINFO = {
    "nn.functional.layer_norm": "layer_norm",
    "nn.functional.rms_norm": "rms_norm",
    "nn.functional.linear": "linear",
    "nn.functional.scaled_dot_product_attention": "attention",
    "nn.functional.relu": "relu",
    "nn.functional.silu": "silu",
    "nn.functional.gelu": "gelu",
    "nn.functional.conv2d": "conv2d",
    "nn.functional.cross_entropy": "cross_entropy",
    "nn.functional.embedding": "embedding",
    "clamp_max": "minimum",
}
"""What OpInfo calls differently, and all that it has under `nn.functional`; others have their own names."""
_ONNX = {
    **{word: word.capitalize() for word in ("abs", "neg", "sign", "relu", "floor", "ceil", "round", "sqrt", "exp")},
    **{word: word.capitalize() for word in ("log", "sin", "cos", "sinh", "erf", "tanh", "sigmoid", "reciprocal")},
    **{word: word.capitalize() for word in ("add", "sub", "mul", "div", "gelu", "softmax")},
    "maximum": "Max",
    "minimum": "Min",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "eq": "Equal",
    "log_softmax": "LogSoftmax",
    "cumsum": "CumSum",
    "matmul": "MatMul",
    "layer_norm": "LayerNormalization",
    "rms_norm": "RMSNormalization",
    "sum": "ReduceSum",
    "prod": "ReduceProd",
    "amax": "ReduceMax",
    "amin": "ReduceMin",
    "mean": "ReduceMean",
    "attention": "Attention",
    "topk": "TopK",
    "argmax": "ArgMax",
    "conv2d": "Conv",
    "embedding": "Gather",
    "cross_entropy": "SoftmaxCrossEntropyLoss",
    "addmm": "Gemm",
    "where": "Where",
}

IREE_PRODUCTS = (
    (1, 1, 1), (2, 2, 2), (4, 4, 4), (8, 8, 8), (9, 9, 9), (6, 3, 13), (15, 7, 37), (81, 41, 19), (1, 10, 10),
    (10, 10, 1), (10, 1, 10), (123, 789, 456), (654, 234, 321), (1, 1000, 1000), (1000, 1, 1000), (512, 512, 128),
    (457, 512, 330), (457, 514, 330), (438, 514, 330), (540, 516, 332), (1000, 512, 4), (4, 512, 1000),
    (512, 4, 1000), (512, 500, 128), (457, 512, 160), (512, 512, 330),
)  # fmt: skip
"""M, N and K, from https://github.com/iree-org/iree/blob/main/tests/e2e/matmul/generate_e2e_matmul_tests.py."""
IREE_ATTENTIONS = ((1, 128, 512, 64, 32), (2, 512, 512, 128, 64), (2, 512, 1024, 64, 64), (2, 512, 64, 128, 32))
"""Batch, M, N, D and E: ../attention/generate_e2e_attention_tests.py there, and one of iree-org/iree-test-suites."""
IREE_CONVOLUTIONS = (
    (1, 1, 1, 1, 1, 1, 1), (1, 16, 16, 1, 1, 2, 2), (2, 32, 32, 2, 2, 3, 3), (2, 32, 32, 32, 64, 3, 3),
    (2, 128, 128, 4, 8, 3, 3), (2, 128, 128, 3, 12, 3, 3), (1, 130, 130, 64, 64, 3, 3),
)  # fmt: skip
"""Images, height and width of the input, channels, filters, height and width of these:
../convolution/generate_e2e_conv2d_tests.py."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call of an operator: a plan with the results of f64 and of torch in f32, or the reason that there is none."""

    name: str
    operator: str
    plan: Plan | None
    exact: Tensor | None = None
    theirs: Tensor | None = None
    left_out: str = ""


def opinfo_cases() -> Iterator[Case]:
    """Of the operators that are planned, or named above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        operator = _OPINFO.get(info.name, info.name)
        name = f"{info.name}{'.' if info.variant_test_name else ''}{info.variant_test_name}"
        if operator in OPERATORS and (torch.float32 in info.dtypes):
            for dtype in (torch.float32, *((torch.float64, torch.int64) if operator in RANKED else ())):
                torch.manual_seed(0)
                for number, sample in enumerate(info.reference_inputs("cpu", dtype)):
                    yield _opinfo_case(f"{name} {number}", operator, info.op, sample)


def _opinfo_case(name: str, operator: str, call: Callable[..., Any], sample: Any) -> Case:
    args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
    try:
        planned = plan(operator, args, dict(kwargs))
    except LeftOut as reason:
        return Case(name, operator, None, left_out=str(reason))
    wide = [_wide(one) for one in args]
    wide_kwargs = {key: _wide(one) for key, one in kwargs.items() if key != "dtype"}
    with torch.no_grad():
        exact, theirs = call(*wide, **wide_kwargs), call(*args, **kwargs)
    # Some operators have several results, of which the first is that of the kernel.
    first = [one if isinstance(one, Tensor) else one[0] for one in (exact, theirs)]
    return Case(name, operator, planned, first[0], first[1])


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def onnx_cases() -> Iterator[Case]:
    """Node tests of the same operators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        tests = load_model_tests(kind="node")
    from onnx.helper import get_attribute_value

    operators = {onnx: operator for operator, onnx in _ONNX.items()}
    for test in tests:
        nodes = test.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in operators:
            continue
        word = nodes[0].op_type
        attributes = {one.name: get_attribute_value(one) for one in nodes[0].attribute}
        for inputs, outputs in test.data_sets:
            try:
                given = [torch.from_numpy(np.array(one)) for one in inputs if one is not None]
                args, kwargs = onnx_call(operators[word], given, attributes)
                planned = plan(operators[word], args, kwargs)
            except LeftOut as reason:
                yield Case(test.name, word, None, left_out=str(reason))
            except (TypeError, AttributeError, ValueError) as error:
                yield Case(test.name, word, None, left_out=f"no tensor of torch: {type(error).__name__}")
            else:
                right = torch.from_numpy(np.array(outputs[0]))
                yield Case(test.name, word, planned, right, right)
