"""Scenarios of the simulator: classes, operator networks, input and faults, in YAML files and presets.

Start with `scenario.py`; the presets are in `presets/`. Imports `configs` and `configs.classes`.
"""
