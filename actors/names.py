"""What the actors of a system are called, and how one is found. All are in one namespace of the cluster."""

from __future__ import annotations

from typing import Any

import ray

NAMESPACE = "weir"
COORDINATOR = "coordinator"


def dispatcher_name(node: str) -> str:
    return f"dispatcher-{node}"


def gateway_name(node: str) -> str:
    return f"gateway-{node}"


def host_name(host: str) -> str:
    return f"host-{host}"


def find(name: str) -> Any:
    """The handle of an actor; ValueError if there is none. Asks the cluster: keep what it gives."""
    return ray.get_actor(name, namespace=NAMESPACE)


# What is kept for a process that Ray starts anew, by name in the store (`actors.state`).


def system_key() -> str:
    """Which system runs on the cluster."""
    return "system"


def settings_key() -> str:
    """How the system is set that goes on without the process that has started it."""
    return "settings"


def declared_key() -> str:
    """Classes, and where their units are."""
    return COORDINATOR


def shares_key() -> str:
    """Shares and what is lent: what changes with every redistribution."""
    return f"{COORDINATOR}:shares"


def host_key(host: str) -> str:
    """The units of a host."""
    return f"host:{host}"


def dispatcher_key(node: str) -> str:
    """Shares by unit, and the host of each."""
    return f"dispatcher:{node}"
