"""Target names in, machine rows out: every chip the compiler knows is one YAML file beside this one."""

from wavespec.targets.machine import GlobalMemory, Machine, SharedMemory, machines
from wavespec.targets.matrix_instruction import Fragment, MatrixInstruction
from wavespec.targets.names import TARGETS

__all__ = ["TARGETS", "Fragment", "GlobalMemory", "Machine", "MatrixInstruction", "SharedMemory", "machines"]
