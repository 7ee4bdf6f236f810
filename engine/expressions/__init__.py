"""Compiler of SQL expressions into functions over trains; `kernels/` has the functions over whole columns.

Start with `compiler.py`. Imports `engine.data` and `engine.plan`.
"""
