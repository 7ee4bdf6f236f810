"""The coordinator of a cluster: decides which classes exist, where their units run, and which shares they have.

Start with `control_plane.py`; `coordinator_actor.py` is the Ray actor; `ray_effects.py` carries out decisions on Ray.
"""
