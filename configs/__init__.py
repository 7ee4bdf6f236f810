"""Typed settings, declarations and presets. Every other folder imports them; they import nothing of the project.

Start with `base.py` (how a settings model is written) and `classes/priority_class.py` (what a class is promised).
"""
