"""Expressions of SQL, compiled into functions over trains; `kernels/` computes whole columns.

Start with `compiler.py`. Imports `engine.data` and `engine.plan`.
"""
