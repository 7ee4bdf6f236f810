"""Queries to Ray about a system, such as the nodes of its cluster and its live actors, and functions that end actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.runtime.names import NAMESPACE, find

# Seconds in which an actor may stop by itself. Then it is killed, which loses nothing that is in a log.
STOP_S = 2.0


def nodes() -> list[dict[str, Any]]:
    # Ray's type annotations lack `nodes`.
    records: list[dict[str, Any]] = cast(Any, ray).nodes()
    return records


def head_node() -> Any:
    """Return a Ray scheduling strategy that starts an actor on the head node; without the head node there is no cluster."""
    for node in nodes():
        if node["Alive"] and "node:__internal_head__" in node["Resources"]:
            return NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
    return "DEFAULT"


def address_here() -> str:
    """Return the address under which Ray knows the node of this process."""
    node_id = ray.get_runtime_context().get_node_id()
    return str(next(node["NodeManagerAddress"] for node in nodes() if node["NodeID"] == node_id))


def short_id(node_id: str) -> str:
    """Return a short name of a node for paths of sockets, which must be short."""
    return node_id[:8]


def end(names: Sequence[str], *arguments: Any) -> None:
    """Ask all named actors at the same time to stop, wait up to STOP_S seconds, and kill the actors."""
    answers = [actor.stop.remote(*arguments) for actor in map(found_or_none, names) if actor is not None]
    if answers:
        ray.wait(answers, num_returns=len(answers), timeout=STOP_S)
    kill(names)


def kill(names: Sequence[str]) -> None:
    for actor in map(found_or_none, names):
        if actor is not None:
            ray.kill(actor)


def all_names() -> list[str]:
    """Return the names of the system's live actors."""
    actors = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]


def found_or_none(name: str) -> Any:
    try:
        return find(name)
    except ValueError:
        return None
