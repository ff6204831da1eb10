"""Kernels for CPUs on the threads of torch: how many there are, whose stacks, several callers, a fork, large grids."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.runtime.listings import has_disassembler, instructions, listing_of
from tests.runtime.standins import built, gemm_artifact, gemm_interface, gemm_kernel
from wavespec.runtime import ArgumentError, Kernel, pack_artifact, workgroup_body
from wavespec.runtime import workgroups as module
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.loaded_code import LoadedCode
from wavespec.runtime.machine_functions import can_run
from wavespec.runtime.workgroup_body import BODIES
from wavespec.runtime.workgroups import are_shared_out

pytestmark = pytest.mark.skipif(not are_shared_out(), reason="needs Linux, x86-64 or aarch64, and a torch with OpenMP")


MANY = 1 << 20
"""Points that several threads share."""


@cache
def gemm() -> Kernel:
    return Kernel(gemm_artifact())


WORK = pytest.mark.parametrize("work", [1, MANY], ids=["short", "long"])
"""Of launches that keep Python's lock, and of those that give it back."""


def integers(*shape: int) -> Tensor:
    return torch.randint(-4, 5, shape).float()


def run_workgroups(body: Callable[[int, int, int], int], count: int, work: int, local_bytes: int = 4096) -> None:
    """Run a function in place of a kernel's, which gets three addresses."""
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(body)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address
    plan = LaunchPlan({}, (), (), (count, 1, 1), count, work, ())
    module.Workgroups("body", LoadedCode(address, local_bytes, mmap.mmap(-1, 1)), 0, 0).run(plan, ())


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 3, 17, 300])
def test_threads_are_those_that_torch_has_now(threads: None, count: int) -> None:
    """More of them than there are workgroups, than a workspace had, or than fit a byte."""
    torch.set_num_threads(count)
    for m in (1, 40, 700):
        a, b = integers(m, 17), integers(90, 17)
        assert torch.equal(gemm()(a, b), a @ b.T)


def test_every_workgroup_runs_once(threads: None) -> None:
    """A kernel that adds to what is there finds 1 wherever it ran once."""
    kernel = gemm_kernel(gemm_interface())
    found = re.search(r"memref.store %sum, (%c.*)", kernel)
    assert found
    added = f"%old = memref.load {found[1]}\n%new = arith.addf %old, %sum : f32\nmemref.store %new, {found[1]}"
    run = Kernel(built(gemm_interface(), kernel.replace(found[0], added)))
    for count in (1, 2, 8):
        torch.set_num_threads(count)
        for _ in range(20):
            c = torch.zeros(260, 190)
            run(torch.ones(260, 1), torch.ones(190, 1), out=c)
            assert torch.equal(c, torch.ones(260, 190))


def test_stacks_are_large_whatever_those_of_the_callers_are() -> None:
    memory = "memref<500000xf32>"
    through_stack = f"""memref.store %sum, %stack[%n] : {memory}
      %again = memref.load %stack[%n] : {memory}
      memref.store %again, %c[%m, %n]"""
    kernel = gemm_kernel(gemm_interface()).replace("memref.store %sum, %c[%m, %n]", through_stack)
    kernel = kernel.replace("%w = hal", f"%stack = memref.alloca() : {memory}\n%w = hal")
    run = Kernel(built(gemm_interface(), kernel))
    a, b, found = integers(33, 17), integers(9, 17), list[Tensor]()
    before = threading.stack_size(128 << 10)
    try:
        thread = threading.Thread(target=lambda: found.append(run(a, b)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert torch.equal(found[0], a @ b.T)


@pytest.mark.parametrize(("count", "local_bytes"), [(1, 4096), (3, 4096), (1, 6 << 20), (2, 6 << 20)])
def test_stacks_and_local_memory_of_threads_lie_apart(
    monkeypatch: pytest.MonkeyPatch, threads: None, count: int, local_bytes: int
) -> None:
    """A function in place of a kernel's looks at what each thread has, until all were seen."""
    monkeypatch.setattr(module, "_free", [])
    torch.set_num_threads(count)
    places, guards = dict[int, list[range]](), set[int]()
    all_here = threading.Barrier(count)

    def look(environment: int, dispatch: int, workgroup: int) -> int:
        _, _, _, number, local, size = struct.unpack("<IIHxxIQI", ctypes.string_at(workgroup, 28))
        end = workgroup + 64
        places[number] = [range(end - module.STACK_BYTES, end), range(local, local + size)]
        assert size == local_bytes
        ctypes.memset(local, 0xFF, size)
        all_here.wait(30)
        return 0

    run_workgroups(look, count, MANY, local_bytes)
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "---p" in line:
            first, _, end = line.split()[0].partition("-")
            guards.update(range(int(first, 16), int(end, 16), mmap.PAGESIZE))
    assert sorted(places) == [*range(count)]
    assert all(stack.start in guards for stack, _ in places.values())
    ranges = sorted((one.start, one.stop) for both in places.values() for one in both)
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ranges))


def test_threads_that_get_no_workgroup_stay(threads: None) -> None:
    """A region of fewer threads than torch has ends the others, and its next operator makes them anew."""
    torch.set_num_threads(4)
    torch.zeros(1 << 20).add_(1)
    before = {*os.listdir("/proc/self/task")}
    for workgroups in (1, 2, 3, 9):
        run_workgroups(lambda *_: 0, workgroups, MANY)
    torch.zeros(1 << 20).add_(1)
    assert {*os.listdir("/proc/self/task")} == before


@pytest.mark.parametrize(("work", "most"), [(1, 1), (2**18 - 1, 1), (2**18, 2), (2**19, 3), (MANY, 3)])
def test_little_work_wakes_nobody(threads: None, work: int, most: int) -> None:
    """A thread that sleeps, or whose core others have, would be waited for: each has enough for itself."""
    torch.set_num_threads(3)
    callers = set[int]()
    all_here = threading.Barrier(most)

    def look(environment: int, dispatch: int, workgroup: int) -> int:
        if threading.get_ident() not in callers:
            callers.add(threading.get_ident())
            all_here.wait(30)
        return 0

    run_workgroups(look, 3, work)
    assert len(callers) == most


def test_bound_launches_follow_the_number_of_threads_and_the_workspace(
    monkeypatch: pytest.MonkeyPatch, threads: None
) -> None:
    """What was packed for one workspace and number of threads says nothing to another."""
    seen: list[int] = []

    def look(environment: int, dispatch: int, workgroup: int) -> int:
        seen.append(struct.unpack("<I", ctypes.string_at(workgroup, 4))[0])
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(look)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address
    plan = LaunchPlan({}, (), (), (3, 1, 1), 3, MANY, ())
    launch = module.Workgroups("look", LoadedCode(address, 4096, mmap.mmap(-1, 1)), 0, 0).bind(plan, ())
    first: list[module.Workspace] = []
    monkeypatch.setattr(module, "_free", first)
    for count in (1, 1, 3, 2, 1):
        torch.set_num_threads(count)
        launch()
        assert sorted(seen) == [0, 1, 2]
        seen.clear()
    monkeypatch.setattr(module, "_free", [])  # as for calls at once, while `first` is in use
    launch()
    assert sorted(seen) == [0, 1, 2] and first


@WORK
@pytest.mark.parametrize("status", [5, -1])
def test_a_workgroup_that_fails_is_told(status: int, work: int) -> None:
    failing = [status]
    look = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: failing[0])
    address = ctypes.cast(look, ctypes.c_void_p).value
    assert address
    groups = module.Workgroups("look", LoadedCode(address, 4096, mmap.mmap(-1, 1)), 0, 0)
    plan = LaunchPlan({}, (), (), (3, 1, 1), 3, work, ())
    with pytest.raises(RuntimeError, match=f"look: a workgroup ended with status {status}"):
        groups.run(plan, ())
    launch = groups.bind(plan, ())
    assert launch() == status
    failing[0] = 0
    groups.run(plan, ())
    assert not launch()


@pytest.mark.parametrize(("part", "error"), [("machine_function", OSError), ("Workspace", MemoryError)])
def test_without_memory_for_it_every_launch_gives_the_lock_back(
    part: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error("no memory")

    a, b = integers(4, 8), integers(3, 8)
    monkeypatch.setattr(module, "_free", [module.Workspace(1, 4 << 20)])
    monkeypatch.setattr(module, "launches_alone", module.launches_alone.__wrapped__)
    monkeypatch.setattr(module, part, refuse)
    assert module.launches_alone() is None
    assert torch.equal(Kernel(gemm_artifact())(a, b), a @ b.T)


@pytest.mark.skipif(not can_run(), reason="needs CPython on Linux, x86-64 or aarch64")
def test_what_another_thread_made_at_the_same_time_runs_what_was_bound_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache remembers that of the last one; what launches of the others have an address of stays."""
    entry, alone = module._Entry(module._openmp()), module.launches_alone.__wrapped__()  # pyright: ignore
    assert alone is not None
    held = [weakref.ref(entry.memory), weakref.ref(alone.space.memory)]
    a, b = integers(4, 8), integers(3, 8)
    with monkeypatch.context() as patch:
        patch.setattr(module, "launches_alone", itertools.repeat(alone).__next__)
        kernel = Kernel(gemm_artifact())
        kernel(a, b)
        kernel(a, b)
    del entry, alone
    gc.collect()
    assert None not in [one() for one in held]
    assert torch.equal(kernel(a, b), a @ b.T)


@WORK
@pytest.mark.parametrize("bound", [0, 1, 3])
def test_launches_get_the_addresses_that_are_not_bound(bound: int, work: int) -> None:
    """Those of new tensors are others at each launch; constants stand behind them."""
    seen: list[tuple[int, ...]] = []

    def look(environment: int, dispatch: int, workgroup: int) -> int:
        constants, buffers = struct.unpack("<2Q", ctypes.string_at(dispatch + 24, 16))
        seen.append(struct.unpack("<3Q2i", ctypes.string_at(buffers, 24) + ctypes.string_at(constants, 8)))
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(look)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address
    groups = module.Workgroups("look", LoadedCode(address, 4096, mmap.mmap(-1, 1)), 2, 3)
    plan, places = LaunchPlan({}, (7, -8), (), (1, 1, 1), 1, work, ()), (64, 128, 192)
    launch = groups.bind(plan, places[:bound], 3 - bound)
    for shift in (0, 4096, 0):
        launch(*(place + shift for place in places[bound:]))
        assert seen.pop() == (*places[:bound], *(place + shift for place in places[bound:]), 7, -8)
    other = replace(plan, constants=(9, 10))
    for one in (plan, other, plan):
        groups.run(one, places)
        assert seen.pop() == (*places, *one.constants)


def test_calls_at_once_have_a_workspace_each() -> None:
    """In the end there are as many as there were calls at a time, for all later ones."""
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, b = integers(100 + seed, 33), integers(50, 33)
        right = a @ b.T
        wrong.extend(seed for _ in range(100) if not torch.equal(gemm()(a, b), right))

    for _ in range(2):
        workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not wrong and len(module._free) <= 8  # pyright: ignore[reportPrivateUsage]


def test_calls_inside_of_hooks_of_backward_are_right() -> None:
    """Autograd's threads call as others do."""
    a, b, found = integers(64, 32), integers(64, 32), list[bool]()
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda _: found.append(torch.equal(gemm()(a, b), a @ b.T)))  # pyright: ignore
    (x * 2).sum().backward()  # pyright: ignore
    assert found == [True]


_FORK = """
import os, sys, torch
from pathlib import Path
from wavespec.runtime import Kernel, unpack_artifact
kernel = Kernel(unpack_artifact(Path(sys.argv[1]).read_bytes()))
a = torch.ones(60, 3)  # small: functions of torch that use several threads would wait for ever in the child
if sys.argv[2] == "used":
    kernel(a, a)
child = os.fork()
if child == 0:
    os._exit(7 if kernel(a, a).tolist() == [[3.0] * 60] * 60 else 8)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("state", ["used", "fresh"])
def test_a_forked_child_computes_whether_its_parent_had_threads_or_not(tmp_path: Path, state: str) -> None:
    packed = tmp_path / "gemm.bin"
    packed.write_bytes(pack_artifact(gemm_artifact()))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    run = subprocess.run([sys.executable, "-c", _FORK, str(packed), state], env=environment, timeout=60, check=False)
    assert run.returncode == 7


def test_a_fork_without_proc_is_taken_for_one_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that believed the contrary would wait for ever."""

    def listdir(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(module, "_state", {"threads": False, "forked": False})
    module._before_fork()  # pyright: ignore[reportPrivateUsage]
    module._after_fork()  # pyright: ignore[reportPrivateUsage]
    assert module._state["forked"]  # pyright: ignore[reportPrivateUsage]


def with_grid(*grid: int) -> Kernel:
    """The stand-in GEMM, all of whose workgroups but the first along x find nothing to do or do the same."""
    return Kernel(replace(gemm_artifact(), grid=grid))


@pytest.mark.parametrize(
    ("grid", "count", "axis", "most"),
    [
        ((1, 1, 1 << 16), 1 << 16, "z", (1 << 16) - 1),
        ((1 << 32, 1, 1), 1 << 32, "x", (1 << 32) - 1),
        ((1, 1 << 32, 1), 1 << 32, "y", (1 << 32) - 1),
    ],
)
def test_more_workgroups_than_there_are_numbers_are_refused_by_name(
    grid: tuple[int, int, int], count: int, axis: str, most: int
) -> None:
    kernel, c = with_grid(*grid), torch.empty(4, 3)
    message = f"gemm: M = 4, K = 8, N = 3 needs {count} workgroups along {axis}, a CPU has {most}."
    for _ in range(3):  # each finds out in another way
        with pytest.raises(ArgumentError, match=message):
            kernel(integers(4, 8), integers(3, 8), out=c)
    assert torch.equal(gemm()(torch.ones(4, 8), torch.ones(3, 8)), torch.full((4, 3), 8.0))


def test_the_largest_number_of_workgroups_along_z_is_right(threads: None) -> None:
    torch.set_num_threads(1)
    a, b = integers(4, 1), integers(2, 1)
    assert torch.equal(with_grid(1, 1, (1 << 16) - 1)(a, b), a @ b.T)


def test_workgroups_have_their_place_in_a_grid_of_three_axes(threads: None) -> None:
    """Row (z * 5 + y) * 3 + x of the result is that of the workgroup at x, y, z."""
    interface = replace(gemm_interface(), grid=(3, 5, 7))
    place = """%wy = hal.interface.workgroup.id[1] : index
      %wz = hal.interface.workgroup.id[2] : index
      %nx = hal.interface.workgroup.count[0] : index
      %ny = hal.interface.workgroup.count[1] : index
      %behind = arith.muli %wz, %ny : index
      %line = arith.addi %behind, %wy : index
      %before = arith.muli %line, %nx : index
      %first = arith.addi %before, %w : index"""
    kernel = gemm_kernel(interface).replace("%first = arith.muli %w, %c4 : index", place)
    run = Kernel(built(interface, kernel.replace("arith.addi %first, %c4", "arith.addi %first, %c1")))
    a, b = integers(105, 6), integers(9, 6)
    for count in (1, 2, 8):
        torch.set_num_threads(count)
        assert torch.equal(run(a, b, out=torch.full((105, 9), torch.nan)), a @ b.T)


def test_stacks_that_find_no_room_are_one_clean_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STACK_BYTES", 1 << 46)
    with pytest.raises(MemoryError, match=r"3 threads need \d+ MiB of address space for stacks; .*refuses: .*12"):
        module.Workspace(3, 0)


def test_subnormal_numbers_are_kept_as_torch_keeps_them(threads: None) -> None:
    a, b = torch.full((40, 1), 1e-30), torch.full((2, 1), 1e-10)
    for count in (1, 4):
        torch.set_num_threads(count)
        assert torch.equal(gemm()(a, b), a * b.T) and (a * b.T).count_nonzero() == 80


def test_misaligned_results_may_be_tensors_of_inference() -> None:
    """As those may be that need no copy."""
    with torch.inference_mode():
        results = [torch.zeros(40)[start : start + 12].view(4, 3) for start in (0, 1)]
    a, b = integers(4, 8), integers(3, 8)
    for c in results:
        assert torch.equal(gemm()(a, b, out=c), a @ b.T)


_PRELOADED = """
#include <stdio.h>
static int regions;
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) { regions++; body(data); }
int omp_get_thread_num(void) { return 0; }
int regions_so_far(void) { return regions; }
"""
_CALL = """
import ctypes, sys, torch
from pathlib import Path
from wavespec.runtime import Kernel, unpack_artifact
kernel = Kernel(unpack_artifact(Path(sys.argv[1]).read_bytes()))
torch.set_num_threads(2)
before = ctypes.CDLL(None).regions_so_far()
found = kernel(torch.ones(6000, 3), torch.ones(4, 3))
assert found.tolist() == [[3.0] * 4] * 6000
sys.exit(ctypes.CDLL(None).regions_so_far() - before)
"""


@pytest.mark.rare
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_runtime_that_was_preloaded_runs_kernels_as_it_runs_torch(tmp_path: Path) -> None:
    """With two runtimes there would be two sets of threads for the same cores."""
    packed, library = tmp_path / "gemm.bin", tmp_path / "libpreloaded.so"
    packed.write_bytes(pack_artifact(gemm_artifact()))
    (tmp_path / "preloaded.c").write_text(_PRELOADED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "preloaded.c"], check=True)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "LD_PRELOAD": str(library)}
    run = subprocess.run([sys.executable, "-c", _CALL, str(packed)], env=environment, timeout=60, check=False)
    assert run.returncode == 1


@pytest.mark.skipif(not has_disassembler(), reason="needs LLVM's disassembler")
@pytest.mark.parametrize("architecture", BODIES)
def test_the_machine_code_is_what_its_comments_say(architecture: str) -> None:
    listing, (body, _) = listing_of(workgroup_body, architecture), BODIES[architecture]
    assert bytes.fromhex("".join(code for code, _, _ in listing)) == body
    assert [(place, text) for _, place, text in listing] == instructions(architecture, body)
