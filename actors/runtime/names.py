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
    """Return the handle of an actor, or raise NoSuchActor. Each call asks the cluster, so callers keep the handle."""
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        hint = "try again in a few seconds; start the system with `weir up` if it has ended"
        raise NoSuchActor(f"the running system has no actor {name} now", hint=hint) from None


# Keys in the store (`actors.runtime.kv_store`) of values with which a restarted process continues.
SYSTEM_KEY = "system"  # Name of the system that runs on the cluster
SETTINGS_KEY = "settings"  # Settings of a system that does not end with the process that started it
DECLARED_KEY = COORDINATOR  # Declared classes, and the nodes and hosts of their units
SHARES_KEY = f"{COORDINATOR}:shares"  # Shares and loans, which change with every redistribution


def host_key(host: str) -> str:
    """Return the key under which the units of a host are stored."""
    return f"host:{host}"


def dispatcher_key(node: str) -> str:
    """Return the key under which the shares and hosts of a node's units are stored."""
    return f"dispatcher:{node}"
