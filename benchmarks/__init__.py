"""Benchmarks: `python -m benchmarks emit fetch --json FILE`."""
