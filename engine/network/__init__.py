"""Operator network of a class: connects query plans so that equal parts run once, and exchanges plans for equivalent plans.

Start with `network.py`. `one_time.py` answers one-time queries from the panes of the network. This folder
imports `engine.operators`, and all folders that `engine.operators` imports.
"""
