"""Kernels: what a scalar function does to whole columns of values, one module per kind of value.

A kernel knows nothing of expressions, NULLs or trains; `engine/expressions/compiler.py` puts those around it.
"""
