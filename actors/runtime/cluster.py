"""What Ray knows of a system: the nodes of its cluster, which of its actors are alive, and how these are ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.runtime.names import NAMESPACE, find

# To stop: what an actor has for it. After this it is killed, which loses nothing that is in a log.
STOP_S = 2.0


def nodes() -> list[dict[str, Any]]:
    # Ray's types do not know it.
    records: list[dict[str, Any]] = cast(Any, ray).nodes()
    return records


def head_node() -> Any:
    """The node whose end is the cluster's end."""
    for node in nodes():
        if node["Alive"] and "node:__internal_head__" in node["Resources"]:
            return NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
    return "DEFAULT"


def address_here() -> str:
    """Of the node this process is on, as Ray knows it."""
    node_id = ray.get_runtime_context().get_node_id()
    return str(next(node["NodeManagerAddress"] for node in nodes() if node["NodeID"] == node_id))


def short_id(node_id: str) -> str:
    """A node's name in sockets' paths, which must be short."""
    return node_id[:8]


def end(names: Sequence[str], *arguments: Any) -> None:
    """Ask actors to stop, all at once, then kill them."""
    answers = [actor.stop.remote(*arguments) for actor in map(found_or_none, names) if actor is not None]
    if answers:
        ray.wait(answers, num_returns=len(answers), timeout=STOP_S)
    kill(names)


def kill(names: Sequence[str]) -> None:
    for actor in map(found_or_none, names):
        if actor is not None:
            ray.kill(actor)


def all_names() -> list[str]:
    """The actors of the system that are alive."""
    actors = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]


def found_or_none(name: str) -> Any:
    try:
        return find(name)
    except ValueError:
        return None
