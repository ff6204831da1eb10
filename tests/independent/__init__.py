"""Cases that others wrote for the same operators, run through kernels."""
