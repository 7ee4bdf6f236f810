"""Typed settings, declarations and presets. All other packages import them; they import no other package of the project.

Start with `base.py` (base of all settings models) and `classes/priority_class.py` (terms of a priority class).
"""
