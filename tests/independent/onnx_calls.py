"""Inputs and attributes of a node of ONNX go in; the arguments that torch's operator of the same meaning has come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from tests.independent.plan import LeftOut


def onnx_call(
    operator: str, inputs: Sequence[Tensor], attributes: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rest = dict(attributes)
    match operator:
        case "softmax" | "log_softmax":
            return (inputs[0], rest.pop("axis", -1)), rest
        case "cumsum":
            if any(rest.values()):
                raise LeftOut("exclusive or reversed")
            return (inputs[0], int(inputs[1])), {}
        case "layer_norm" | "rms_norm":
            axis = rest.get("axis", -1)
            x, *others = inputs
            return (x, x.shape[axis:], *others), {"eps": round(rest.get("epsilon", 1e-5), 9)}
        case "sum" | "prod" | "amax" | "amin" | "mean":
            if rest.get("noop_with_empty_axes") and (len(inputs) < 2 or not inputs[1].numel()):
                raise LeftOut("of no dim")
            axes = rest.get("axes") or (inputs[1].tolist() if len(inputs) > 1 else None)
            return (inputs[0], axes or None), {"keepdim": bool(rest.get("keepdims", 1))}
        case "gelu":
            return (inputs[0],), {"approximate": rest.get("approximate", b"none").decode()}
        case "maximum" | "minimum":
            if len(inputs) != 2:
                raise LeftOut(f"{len(inputs)} operands")
            return tuple(inputs), {}
        case "topk":
            x, count = inputs
            return (x, int(count)), {"dim": rest.get("axis", -1), "largest": bool(rest.get("largest", 1))}
        case "argmax":
            if rest.get("select_last_index"):
                raise LeftOut("the last of equal ones is wanted")
            return (inputs[0], rest.get("axis", 0)), {"keepdim": bool(rest.get("keepdims", 1))}
        case "embedding":
            table, tokens = inputs
            if rest.get("axis", 0) or table.ndim != 2:
                raise LeftOut("not of rows of a matrix")
            return (table, tokens), {}
        case "cross_entropy":
            others = {
                "ignore_index": rest.get("ignore_index", -100),
                "reduction": rest.get("reduction", b"mean").decode(),
            }
            return tuple(inputs), others
        case "conv2d":
            return _convolution(inputs, rest)
        case "attention":
            return _attention(inputs, rest)
        case _:
            return tuple(inputs), rest


def _convolution(inputs: Sequence[Tensor], given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    pads = given.get("pads", [0, 0, 0, 0])
    if given.get("auto_pad", b"NOTSET") != b"NOTSET" or pads[:2] != pads[2:]:
        raise LeftOut("padding is 'same', or of one side")
    names = {"strides": "stride", "dilations": "dilation", "group": "groups"}
    return tuple(inputs), {
        "padding": tuple(pads[:2]),
        **{torch: given[one] for one, torch in names.items() if one in given},
    }


def _attention(inputs: Sequence[Tensor], given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if len(inputs) > 3:
        raise LeftOut("with a mask, or keys of before")
    heads = given.get("q_num_heads"), given.get("kv_num_heads")
    named = sorted(
        name
        for name, value in given.items()
        if name not in ("q_num_heads", "kv_num_heads")
        and value not in (0, 0.0)
        and not (name.endswith("size") and value < 0)
    )
    if named:
        raise LeftOut(f"with {', '.join(named)}")
    if heads[0] and heads[1]:
        raise LeftOut("heads lie beside each other in a row")
    q, k, _ = inputs
    return tuple(inputs), {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
