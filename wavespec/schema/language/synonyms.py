"""A word that the language does not have goes in; what other languages mean by it, as a hint, comes out."""

from __future__ import annotations

import re
from collections.abc import Collection

from wavespec.diagnostics import quote

_CALLED_HERE = {
    "swish": "silu",
    **dict.fromkeys(("sigm", "logistic", "expit"), "sigmoid"),
    **dict.fromkeys(("gelu_erf", "gelu_exact", "gelu_none"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_approx", "gelu_approximate", "gelu_pytorch_tanh"), "gelu_tanh"),
    **dict.fromkeys(("log_sigmoid", "logsigm"), "logsigmoid"),
    **dict.fromkeys(("matmul", "dot", "gemm", "mm", "bmm", "einsum", "linear", "contract"), "mma"),
    **dict.fromkeys(("rsqrtf", "inv_sqrt", "inverse_sqrt", "invsqrt"), "rsqrt"),
    **dict.fromkeys(("inv", "recip", "rcp"), "reciprocal"),
    "power": "pow",
    "ln": "log",
    **dict.fromkeys(("clip", "clamp_min", "clamp_max"), "clamp"),
    **dict.fromkeys(("select", "ifelse", "cond", "masked_fill"), "where"),
    **dict.fromkeys(("absolute", "fabs"), "abs"),
    **dict.fromkeys(("negative", "minus"), "neg"),
    "subtract": "sub",
    **dict.fromkeys(("multiply", "times"), "mul"),
    **dict.fromkeys(("divide", "true_divide"), "div"),
    "floordiv": "floor_divide",
    **dict.fromkeys(("mod", "modulo"), "remainder"),
    **dict.fromkeys(("fused_multiply_add", "mad", "addcmul"), "fma"),
    "arctan": "atan",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan2": "atan2",
    **dict.fromkeys(("rint", "nearbyint", "round_even"), "round"),
    "truncate": "trunc",
    "is_nan": "isnan",
    **{word: f"logical_{word}" for word in ("not", "and", "or", "xor")},
    **dict.fromkeys(("amax", "reduce_max"), "max"),
    **dict.fromkeys(("amin", "reduce_min"), "min"),
    **dict.fromkeys(("reduce_sum", "add_reduce"), "sum"),
    "average": "mean",
    **dict.fromkeys(("product", "multiply_reduce"), "prod"),
    "sort": "topk",
    **dict.fromkeys(("rand", "uniform", "philox", "dropout"), "random"),
    **dict.fromkeys(("astype", "convert", "to"), "cast"),
    "reinterpret": "bitcast",
    "load": "read",
    "store": "write",
    **dict.fromkeys(("for", "loop"), "iterate"),
    "while": "repeat",
    "branch": "if",
    **dict.fromkeys(("arange", "iota", "program_id", "self_index"), "index"),
    **dict.fromkeys(("shape", "len"), "size"),
    **dict.fromkeys(("atomic_add", "atomic_max", "atomic_cas"), "atomic"),
    **dict.fromkeys(("zeros", "full", "fill", "constant", "scalar"), "register"),
    **dict.fromkeys(("extract", "extract_slice", "flip", "gather", "roll", "slice"), "take"),
    **dict.fromkeys(("broadcast", "expand", "permute", "reshape", "shuffle", "squeeze", "transpose", "view"), "take"),
}
"""What other languages call an op, and the op that it is, or is said with, here."""
_SAID_BY_SEVERAL = {
    "softmax": "'max', 'exp2' and 'sum' (specs/softmax.wave.yaml)",
    "log_softmax": "'max', 'exp2', 'sum' and 'log' (specs/log_softmax.wave.yaml)",
    "logsumexp": "'max', 'exp2', 'sum' and 'log' (specs/log_softmax.wave.yaml)",
    "layer_norm": "'mean' and 'rsqrt' (specs/layer_norm.wave.yaml)",
    "rms_norm": "'mean' and 'rsqrt' (specs/rms_norm.wave.yaml)",
    "attention": "two 'mma' and an online softmax (specs/attention.wave.yaml)",
    "conv2d": "'mma' of what 'read' takes by 'at' (specs/conv2d_nhwc.wave.yaml)",
    "concat": "'where' of two 'take', or two kernels",
    "one_hot": "'index(N) == place'",
    "square": "'x * x'",
}
"""What other languages have an op for, and what it is said with here."""
_SIGNS = {
    "and": "'&' joins conditions in parentheses: '(x > 0) & (y > 0)'.",
    "or": "'|' joins conditions in parentheses: '(x > 0) | (y > 0)'.",
    "not": "'~' turns a condition round: '~(x > 0)'.",
    "if": "'where(condition, x, y)' chooses one of two.",
    "^": "The power is 'x ** 2'; bits are joined by 'bitwise_xor(x, y)'.",
    "<<": "Bits are moved by 'bitwise_left_shift(x, 2)'.",
    ">>": "Bits are moved by 'bitwise_right_shift(x, 2)'.",
    "[": "Elements at other places are a statement of their own: '- name: {take: x, at: {N: ...}}'.",
    ".nan": "It is written 'nan'.",
    ".inf": "It is written 'inf'.",
}
"""What Python and C have signs and words for, and what it is said with in expressions of values."""
_ELEMENT_TYPES = {
    **dict.fromkeys(("double", "float64", "fp64"), "f64"),
    **dict.fromkeys(("float", "float32", "fp32", "single"), "f32"),
    **dict.fromkeys(("half", "float16", "fp16"), "f16"),
    **dict.fromkeys(("bfloat16", "bfloat"), "bf16"),
    **dict.fromkeys(("fp8", "f8", "float8", "e4m3", "f8e4m3", "fp8e4m3", "float8_e4m3fn"), "f8e4m3fn"),
    **dict.fromkeys(("e5m2", "fp8e5m2", "float8_e5m2"), "f8e5m2"),
    **dict.fromkeys(("e8m0", "float8_e8m0fnu"), "f8e8m0fnu"),
    **dict.fromkeys(("fp4", "f4", "e2m1"), "f4e2m1fn"),
    **dict.fromkeys(("long", "int64"), "i64"),
    **dict.fromkeys(("int", "int32"), "i32"),
    **dict.fromkeys(("short", "int16"), "i16"),
    **dict.fromkeys(("char", "int8"), "i8"),
    **dict.fromkeys(("byte", "uint8"), "u8"),
    **dict.fromkeys(("boolean", "i1"), "bool"),
}


def op_hints(name: str, allowed: Collection[str]) -> tuple[str, ...]:
    """How an op of other languages is said with those that are ``allowed``; nothing where none is known."""
    here = _CALLED_HERE.get(name.lower(), "")
    if name.lower() in _SAID_BY_SEVERAL:
        return (f"It is said with {_SAID_BY_SEVERAL[name.lower()]}.",)
    return (f"It is said with {quote(here)}.",) if here in allowed else ()


def function_hints(name: str, allowed: Collection[str]) -> tuple[str, ...]:
    """The same of a function inside of an expression, where what makes one value of several is a statement."""
    here = _CALLED_HERE.get(name.lower(), "")
    if not here or here in allowed:
        return op_hints(name, allowed)
    return (f"It is said with {quote(here)}, a statement of its own.",)


def sign_hint(text: str, offset: int) -> str:
    """How expressions of values say what stands at a place of ``text``; nothing where none is known."""
    first = offset - (text[max(offset - 1, 0) : offset + 1] in ("<<", ">>"))  # of two, the second one is wrong
    digits = re.match(r"\.[0-9]+", text[first:])
    if digits:
        return f"A number begins with a digit: '0{digits[0]}'."
    word = re.match(r"\.?[a-z]+|<<|>>|.|$", text[first:])
    return _SIGNS.get(word[0], "") if word else ""


def dtype_hints(name: str, allowed: Collection[str]) -> tuple[str, ...]:
    """What other languages mean by an element type; nothing where none is known."""
    here = _ELEMENT_TYPES.get(name.lower(), "")
    return (f"Did you mean {quote(here)}?",) if here in allowed else ()
