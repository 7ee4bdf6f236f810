"""W11 as a race: the workload, Weir's engine, and other ways to answer the same queries.

Start with `race.py`; `w11_workload.py` makes the input. `weir bench` and the benchmarks run it.
"""
