"""The coordinator: which classes exist, where their units run, and which shares they have; one per cluster.

Start with `control_plane.py`; `coordinator_actor.py` is the Ray actor around it, `ray_effects.py` carries out its effects.
"""
