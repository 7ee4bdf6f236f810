"""Managers: which classes share a load manager, and whether they lend each other capacity.

`dilos` is the full system; the other managers exist for comparison, and switch parts of the system off.
"""

from __future__ import annotations

from typing import Literal, get_args

from configs.errors import UnknownName, nearest

Manager = Literal["none", "common", "per-class", "dilos", "dilos-unscaled", "dilos-no-lending"]
MANAGERS: tuple[Manager, ...] = get_args(Manager)


def known_manager(name: str) -> Manager:
    for manager in MANAGERS:
        if manager == name:
            return manager
    raise UnknownName("there is no manager of this name", "--manager", name, nearest(name, MANAGERS))


def lends(manager: str) -> bool:
    """Return True if classes lend each other capacity."""
    return manager in ("dilos", "dilos-unscaled")


def moves_shares(manager: str) -> bool:
    """Return True if the component that moves shares between classes runs."""
    return manager.startswith("dilos")


def scales_headroom(manager: str) -> bool:
    """Return True if load managers scale their headroom as soon as shares move."""
    return manager != "dilos-unscaled"


def sheds(manager: str) -> Literal["nobody", "everybody", "each"]:
    """Return how load is shed: not at all, by one load manager for all classes, or by one load manager per class."""
    match manager:
        case "none":
            return "nobody"
        case "common":
            return "everybody"
        case _:
            return "each"
