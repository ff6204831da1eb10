"""Interpreters: what a kernel or an op graph computes, without the machine it is meant for."""
