"""What a spec says about its arguments goes in; the Python module that people import to call the kernel comes
out, as text: `templates/kernel.py.jinja`, which reads like it, with what is computed here.

Nothing from the spec is pasted into code: names are checked to be plain identifiers, every other text is
written as a literal, and the finished module is parsed again and compared with what was meant before anyone
sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wavespec.emit.python_text import Parameter, render
from wavespec.emit.shape_checks import described, promises, shapes_of
from wavespec.emit.wrapper_input import WrapperInput, WrapperTensor, artifacts_directory, check_input
from wavespec.runtime.size_expr import as_text


def wrapper_module(kernel: WrapperInput) -> str:
    """The generated module: same input, same bytes.

    Errors: `ValueError` for a name that cannot be written as Python, or a kernel that a torch operator cannot
        express.
    """
    check_input(kernel)
    name = kernel.name
    launches = (["_new", "_write"] if kernel.outputs else ["_write"]) if kernel.scalars else []
    defines = ["__all__", "_KERNELS", name, f"{name}_raw", *launches, f"_{name}_fake", *operators(kernel)]
    context = call_context(kernel, [kernel]) | {
        "in_project": kernel.in_project,
        "looked_at": [],
        "promises": promises(kernel),
        "shapes": shapes_of(kernel, name),
    }
    return render("kernel.py.jinja", defines, context)


def operators(kernel: WrapperInput) -> list[str]:
    """What is defined at the end of the module."""
    written = [f"_{kernel.name}_out_fake", f"_{kernel.name}_op", f"_{kernel.name}_out_op"]
    return written if kernel.outputs else [f"_{kernel.name}_op"]


def layout_in_words(tensor: WrapperTensor) -> str:
    """What the strides of an argument may be."""
    if tensor.promised:
        return f"of strides ({', '.join(map(as_text, tensor.promised))})"
    return "of any strides, of which the last is 1" if tensor.strides == "any" else "contiguous"


def call_context(
    whole: WrapperInput, kernels: Sequence[WrapperInput], keywords: Sequence[Parameter] = ()
) -> dict[str, Any]:
    """What templates say of a function with the arguments of `whole` and `keywords` that calls one of `kernels`."""
    written = tuple(replace(one, name="out") if len(whole.outputs) == 1 else one for one in whole.outputs)
    # What is written has a letter of its own in the schema of an operator.
    marks = {tensor.name: f"({chr(ord('a') + i)}!)" for i, tensor in enumerate((*whole.updated, *written))}
    taken = [f"{tensor.schema_type}{marks.get(tensor.name, '')} {tensor.name}" for tensor in whole.inputs]
    taken += [f"{keyword.type} {keyword.name}" for keyword in keywords]
    outs = [f"Tensor{marks[tensor.name]} {tensor.name}" for tensor in written]
    numbers = [scalar.in_schema for scalar in whole.scalars]
    results = "Tensor" if len(outs) == 1 else f"({', '.join('Tensor' for _ in outs)})"
    schema = f"({', '.join([*taken, *numbers])}) -> {results}"
    # It returns nothing: torch before 2.13 does not know operators that return what they write. Its outputs are
    # positional: keywords cost 0.8 µs a call.
    schema_out = f"({', '.join([*taken, *outs, *numbers])}) -> ()"
    # Torch keeps operators for the life of a process, and Inductor the code that calls them from one process to the
    # next: a name per version of the specs and of the schemas keeps versions apart.
    versions = dict.fromkeys((whole.spec_sha256, *(kernel.spec_sha256 for kernel in kernels)))
    version = hashlib.sha256("\n".join((*versions, schema, schema_out)).encode()).hexdigest()

    def described_as(name: str) -> str:
        return described([tensor for kernel in kernels for tensor in kernel.tensors if tensor.name == name])

    def layout_of(names: Sequence[str]) -> str:
        """What the strides of arguments may be."""
        found = {layout_in_words(one) for kernel in kernels for one in kernel.tensors if one.name in names}
        one, *others = sorted(found)
        return f"{one}, or {' or '.join(others)}, as the kernel has it" if others else one

    return {
        "name": whole.name,
        "doc": whole.doc.strip(),
        "source": whole.source,
        "spec_sha256": whole.spec_sha256,
        "command": whole.command,
        "folder": artifacts_directory(whole.name),
        "tensors": whole.tensors,
        "inputs": whole.inputs,
        "updated": whole.updated,
        "outputs": whole.outputs,
        "keywords": keywords,
        "scalars": whole.scalars,
        "arguments": (*whole.inputs, *keywords),
        "written": written,
        "lacked": [scalar.name for scalar in whole.scalars if scalar.optional],
        "optional": [tensor.name for tensor in whole.inputs if tensor.optional],
        "described": described_as,
        "layout": layout_of,
        "made_placed": any(tensor.promised for kernel in kernels for tensor in kernel.outputs),
        "zeroed": {tensor.name for kernel in kernels for tensor in kernel.outputs if tensor.zeroed},
        "namespace": f"wavespec_{version[:8]}",
        "schema": schema,
        "schema_out": schema_out,
    }
