"""Benchmarks, run from the repository's root: `python -m bench.all`, or one by one."""
