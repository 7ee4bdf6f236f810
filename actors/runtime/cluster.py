"""Queries to Ray about a system, such as the nodes of its cluster and its live actors, and functions that start and end actors."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.runtime.names import NAMESPACE, find

# Seconds that an actor has to stop by itself before it is killed. Killing an actor loses nothing that is in a log.
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


def start_actor(
    kind: type,
    name: str,
    node_id: str | None,
    groups: Mapping[str, int],
    arguments: Sequence[Any],
    concurrency: int = 1,
) -> Any:
    """Return the handle of an actor. If the actor does not exist, start it on node `node_id` (default: the head node).

    Ray restarts the actor after a crash. The actor lives until it is killed, even if the process that started it ends.
    """
    # Ray's type annotations lack concurrency groups.
    remote = cast(Any, ray.remote)
    process = remote(
        num_cpus=0, max_restarts=-1, max_concurrency=concurrency, concurrency_groups=dict(groups)
    )
    place = head_node() if node_id is None else NodeAffinitySchedulingStrategy(node_id, soft=False)
    actor = process(kind).options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        scheduling_strategy=place,
    )
    return actor.remote(*arguments)


def run_or_exit(work: Callable[[], None]) -> None:
    """Run the loop of an actor; if it fails, end the process, so that Ray restarts the actor."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


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
