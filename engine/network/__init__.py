"""Operator network of a class: connects query plans so that equal parts run once, and exchanges plans for equivalent plans.

Start with `network.py`. Imports `engine.operators`, and all folders that `engine.operators` imports.
"""
