"""One seed a run; every component draws from its own generator, so a new one does not shift the others."""

from __future__ import annotations

import random


def generator(seed: int, *path: str) -> random.Random:
    return random.Random(f"{seed}/{'/'.join(path)}")
