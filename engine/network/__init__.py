"""Operator network of a class: query plans connected so that equal parts run once, and matched when a plan changes.

Start with `network.py`. Imports `engine.operators` and the folders that it imports.
"""
