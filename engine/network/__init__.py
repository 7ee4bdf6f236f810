"""The operator network of a class: plans joined up so that equal parts run once, and aligned when a plan changes.

Start with `network.py`. Imports `engine.operators` and what those import.
"""
