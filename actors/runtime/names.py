"""Names of a system's actors, which are all in one namespace of the cluster, and of the values stored for them."""

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
    """Error for an actor that does not exist now: the system has ended, or Ray is restarting the actor."""


def find(name: str) -> Any:
    """Return the handle of an actor, or raise NoSuchActor. This asks the cluster, so keep the handle."""
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        hint = "try again in a few seconds; start the system with `weir up` if it has ended"
        raise NoSuchActor(f"the running system has no actor {name} now", hint=hint) from None


# Keys in the store (`actors.runtime.kv_store`) of the values that a restarted process continues with.


def system_key() -> str:
    """Return the key of the name of the system that runs on the cluster."""
    return "system"


def settings_key() -> str:
    """Return the key of the settings of a system that continues after the process that started it has ended."""
    return "settings"


def declared_key() -> str:
    """Return the key of the declared classes and the locations of their units."""
    return COORDINATOR


def shares_key() -> str:
    """Return the key of the shares and loans, which change with every redistribution."""
    return f"{COORDINATOR}:shares"


def host_key(host: str) -> str:
    """Return the key of the units of a host."""
    return f"host:{host}"


def dispatcher_key(node: str) -> str:
    """Return the key of the shares and hosts of the units of a node."""
    return f"dispatcher:{node}"
