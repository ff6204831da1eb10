"""Thread kernels for CPUs."""
from wavespec.emit.thread_to_mlir import ThreadToMlir
class ThreadToCpu(ThreadToMlir):
    pass
