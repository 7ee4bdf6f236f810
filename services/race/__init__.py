"""Benchmark of Weir's query engine against other programs (the contestants) that answer the same queries of the workload W11.

Start with `race.py`; `w11_workload.py` reads or generates the input. `weir bench` and the benchmarks use this folder.
"""
