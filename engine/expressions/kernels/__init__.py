"""Kernels: scalar functions over whole columns of values, in one module per kind of value.

A kernel is independent of expressions, NULLs and trains; `engine/expressions/compiler.py` handles these.
"""
