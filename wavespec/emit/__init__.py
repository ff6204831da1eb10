"""The way out: thread kernels to MLIR and machine code, launch interfaces, typed Python wrappers."""
