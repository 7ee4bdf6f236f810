"""One seed a run; every component draws from its own generator, so a new one does not shift the others."""

from __future__ import annotations

import random

import numpy as np


def generator(seed: int, *path: str) -> random.Random:
    return random.Random(f"{seed}/{'/'.join(path)}")


def array_generator(seed: int, *path: str) -> np.random.Generator:
    """For who draws whole arrays."""
    return np.random.default_rng(generator(seed, *path).getrandbits(128))
