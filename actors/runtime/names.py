"""What the actors of a system are called, and how one is found. All are in one namespace of the cluster."""

from __future__ import annotations

from typing import Any

import ray

from configs.errors import Away

NAMESPACE = "weir"
COORDINATOR = "coordinator"


def dispatcher_name(node: str) -> str:
    return f"dispatcher-{node}"


def gateway_name(node: str) -> str:
    return f"gateway-{node}"


def host_name(host: str) -> str:
    return f"host-{host}"


class NoSuchActor(Away, ValueError):
    """An actor that is not there: the system has ended, or Ray is about to start the actor again."""


def find(name: str) -> Any:
    """Return the handle of an actor, or raise NoSuchActor. This asks the cluster, so keep the handle."""
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        hint = "try again in a few seconds; start the system with `weir up` if it has ended"
        raise NoSuchActor(f"the running system has no actor {name} now", hint=hint) from None


# What is kept for a process that Ray starts anew, by name in the store (`actors.runtime.kv_store`).


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
