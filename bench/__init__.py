"""Benchmarks that measure the figures of README and bench/RESULTS.md: `python -m bench`, or `make bench`."""
