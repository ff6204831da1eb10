"""The module around a kernel: its text, and that IREE neither copies nor allocates for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.runtime.standins import gemm_interface, gemm_kernel, hal_of, hosted, scaled_interface
from wavespec.emit.host_module import executable_module, pipeline_layout


def test_results_are_written_in_place_with_one_dispatch_and_no_allocation() -> None:
    """After IREE's lowering to HAL the caller's own buffers are what the dispatch is bound to."""
    interface = gemm_interface()
    text = hal_of(hosted(interface, gemm_kernel(interface)))
    host = text[text.index("util.func public @gemm") :]
    assert host.count("hal.command_buffer.dispatch") == 1
    for word in ("copy_buffer", "fill_buffer", "queue.alloca", "allocator.allocate", "hal.buffer_view"):
        assert word not in host, word
    for argument in ("%arg0", "%arg1", "%arg2"):
        assert f"({argument} : !hal.buffer)[" in host


def test_compiled_in_sizes_are_no_arguments() -> None:
    text = hosted(gemm_interface(rows=16), gemm_kernel(gemm_interface(rows=16)))
    assert "%size_M" not in text and "constants = 2" in text


def test_scratch_comes_after_the_tensors_and_says_its_size() -> None:
    text = hosted(scaled_interface(), "func.func @scaled() {\nreturn\n}")
    expected = (
        "(%buffer_x: !hal.buffer, %buffer_double: !hal.buffer, %buffer_triple: !hal.buffer, "
        "%buffer_scratch.0: !hal.buffer, %size_N: i32, %bytes_scratch.0: i64)"
    )
    assert expected in text


def test_layout_says_which_tensors_are_only_read() -> None:
    read = "#hal.pipeline.binding<storage_buffer, ReadOnly>"
    written = "#hal.pipeline.binding<storage_buffer>"
    expected = f"#hal.pipeline.layout<constants = 1, bindings = [{read}, {written}, {written}, {written}]>"
    assert pipeline_layout(scaled_interface()) == expected


def test_aliases_of_the_kernel_move_to_the_top() -> None:
    text = hosted(scaled_interface(), "#a = 1 : i32\n!t = i32\nfunc.func @scaled() {\nreturn\n}")
    assert text.startswith("#a = 1 : i32\n!t = i32\n#target = ")


def test_grid_expression_without_a_lowering_is_refused() -> None:
    with pytest.raises(ValueError, match="'gt' has no place"):
        hosted(replace(scaled_interface(), grid=(("gt", "N", 1), 1, 1)), "func.func @scaled() {\n}")


def test_executable_alone_is_public() -> None:
    interface = gemm_interface()
    text = executable_module(interface, gemm_kernel(interface), '#hal.executable.target<"cuda", "cuda-nvptx-fb">')
    assert "hal.executable public @_executable" in text and "hal.executable.export public @gemm" in text
