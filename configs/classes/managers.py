"""Which of the cores of the control ring take part: DILoS, what it is compared with, and its ablations."""

from __future__ import annotations

from typing import Literal, get_args

from configs.errors import UnknownName, nearest

Manager = Literal["none", "common", "per-class", "dilos", "dilos-unscaled", "dilos-no-lending"]
MANAGERS: tuple[Manager, ...] = get_args(Manager)


def known_manager(name: str) -> Manager:
    for manager in MANAGERS:
        if manager == name:
            return manager
    raise UnknownName("no such manager", "--manager", name, nearest(name, MANAGERS))


def lends(manager: str) -> bool:
    """Whether classes lend each other capacity."""
    return manager in ("dilos", "dilos-unscaled")


def moves_shares(manager: str) -> bool:
    """Whether there is a core that could move shares."""
    return manager.startswith("dilos")


def scales_headroom(manager: str) -> bool:
    """Whether load managers are told of a move at once."""
    return manager != "dilos-unscaled"


def sheds(manager: str) -> Literal["nobody", "everybody", "each"]:
    """Whom a load manager serves: nobody at all, everybody together, or each class its own."""
    match manager:
        case "none":
            return "nobody"
        case "common":
            return "everybody"
        case _:
            return "each"
