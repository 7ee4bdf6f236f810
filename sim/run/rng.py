"""Random number generators made from the seed of a run.

Each component has a generator of its own. So a new component does not change the random numbers of existing components.
"""

from __future__ import annotations

import random

import numpy as np


def generator(seed: int, *path: str) -> random.Random:
    return random.Random(f"{seed}/{'/'.join(path)}")


def array_generator(seed: int, *path: str) -> np.random.Generator:
    """Return a generator for components that draw whole arrays of random numbers."""
    return np.random.default_rng(generator(seed, *path).getrandbits(128))
