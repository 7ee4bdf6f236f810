"""Typed settings and presets. Imported by every other folder; imports none of them."""
