"""The rule for every name in a spec: it becomes a Python name in generated code, so it is a harmless one."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

LONGEST_NAME = 64
NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"
REFERENCE_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}(\.[A-Za-z][A-Za-z0-9_]{0,63})?$"

# Written out, not asked from `keyword` and `builtins`: a spec must mean the same under every Python.
KEYWORDS = frozenset(
    (
        "False",
        "None",
        "True",
        "and",
        "as",
        "assert",
        "async",
        "await",
        "break",
        "case",
        "class",
        "continue",
        "def",
        "del",
        "elif",
        "else",
        "except",
        "finally",
        "for",
        "from",
        "global",
        "if",
        "import",
        "in",
        "is",
        "lambda",
        "match",
        "nonlocal",
        "not",
        "or",
        "pass",
        "raise",
        "return",
        "try",
        "type",
        "while",
        "with",
        "yield",
    )
)
BUILTINS = frozenset(
    (
        "abs",
        "aiter",
        "all",
        "anext",
        "any",
        "ascii",
        "bin",
        "bool",
        "breakpoint",
        "bytearray",
        "bytes",
        "callable",
        "chr",
        "classmethod",
        "compile",
        "complex",
        "copyright",
        "credits",
        "delattr",
        "dict",
        "dir",
        "divmod",
        "enumerate",
        "eval",
        "exec",
        "exit",
        "filter",
        "float",
        "format",
        "frozenset",
        "getattr",
        "globals",
        "hasattr",
        "hash",
        "help",
        "hex",
        "id",
        "input",
        "int",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "license",
        "list",
        "locals",
        "map",
        "max",
        "memoryview",
        "min",
        "next",
        "object",
        "oct",
        "open",
        "ord",
        "pow",
        "print",
        "property",
        "quit",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "setattr",
        "slice",
        "sorted",
        "staticmethod",
        "str",
        "sum",
        "super",
        "tuple",
        "vars",
        "zip",
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "BaseException",
        "BaseExceptionGroup",
        "BlockingIOError",
        "BrokenPipeError",
        "BufferError",
        "BytesWarning",
        "ChildProcessError",
        "ConnectionAbortedError",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "DeprecationWarning",
        "EOFError",
        "Ellipsis",
        "EncodingWarning",
        "EnvironmentError",
        "Exception",
        "ExceptionGroup",
        "FileExistsError",
        "FileNotFoundError",
        "FloatingPointError",
        "FutureWarning",
        "GeneratorExit",
        "IOError",
        "ImportError",
        "ImportWarning",
        "IndentationError",
        "IndexError",
        "InterruptedError",
        "IsADirectoryError",
        "KeyError",
        "KeyboardInterrupt",
        "LookupError",
        "MemoryError",
        "ModuleNotFoundError",
        "NameError",
        "NotADirectoryError",
        "NotImplemented",
        "NotImplementedError",
        "OSError",
        "OverflowError",
        "PendingDeprecationWarning",
        "PermissionError",
        "ProcessLookupError",
        "PythonFinalizationError",
        "RecursionError",
        "ReferenceError",
        "ResourceWarning",
        "RuntimeError",
        "RuntimeWarning",
        "StopAsyncIteration",
        "StopIteration",
        "SyntaxError",
        "SyntaxWarning",
        "SystemError",
        "SystemExit",
        "TabError",
        "TimeoutError",
        "TypeError",
        "UnboundLocalError",
        "UnicodeDecodeError",
        "UnicodeEncodeError",
        "UnicodeError",
        "UnicodeTranslateError",
        "UnicodeWarning",
        "UserWarning",
        "ValueError",
        "Warning",
        "ZeroDivisionError",
    )
)
RESERVED = frozenset(
    (
        "self",
        "cls",
        "torch",
        "wavespec",
        "define_operator",
        "no_backward",
        "check_tensors",
        "is_dynamo_compiling",
        "no_member",
        "no_tensor",
        "PLAIN_TYPES",
        "given_tensors",
        "size_in",
        "new_result",
        "TensorParameter",
        "inf",
        "nan",
        "pi",
        "ceildiv",
        "where",
        "index",
    )
)
"""Words of generated code and of expressions."""


ENTRY_POINTS = frozenset(("WARP_SZ", "iree_hal_executable_library_query"))
"""What kernels cannot be called, as their code is found by name: a constant of every PTX module, and what IREE asks a
library of CPU kernels for."""


def name_problem(text: str) -> str | None:
    """Why `text` cannot be a name, as the end of a sentence; `None` where it can."""
    if len(text) > LONGEST_NAME:
        return f"has {len(text)} characters; a name has at most {LONGEST_NAME}"
    if text.startswith("_"):
        return "starts with an underscore; a name starts with a letter"
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text):
        return "is not a name; a name has ASCII letters, digits and underscores, and starts with a letter"
    if text in KEYWORDS:
        return "is a Python keyword, and names become Python names in generated code"
    if text in BUILTINS:
        return "is a Python builtin, and names become Python names in generated code"
    if text in RESERVED:
        return "is a reserved word"
    return None


def _valid_name(text: str) -> str:
    if problem := name_problem(text):
        raise PydanticCustomError("bad_name", "{problem}", {"problem": problem})
    return text


def _valid_reference(text: str) -> str:
    parts = text.split(".")
    problem = "is not 'name' or 'loop.name'" if len(parts) > 2 else None
    problem = problem or next(filter(None, map(name_problem, parts)), None)
    if problem:
        raise PydanticCustomError("bad_name", "{problem}", {"problem": problem})
    return text


Name = Annotated[str, AfterValidator(_valid_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
"""A dim, parameter, tensor, value or kernel."""

Reference = Annotated[
    str, AfterValidator(_valid_reference), WithJsonSchema({"type": "string", "pattern": REFERENCE_PATTERN})
]
"""A value of the graph: `name`, or `loop.carried_name`."""
