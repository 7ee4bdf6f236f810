"""What must outlive an actor's process: JSON under names, in the key-value store of Ray's head.

The store lives as long as the cluster: longer than any actor, worker or node but the head, and than the head itself where
it keeps its tables in a database. `ray.experimental.internal_kv` is not among Ray's stable interfaces; it is what Ray
Serve keeps its own checkpoints in, and is used in this module alone.

A `put` that has returned is what the next `get` reads, from any process of the cluster; the last one wins.
"""

from __future__ import annotations

import json
from typing import Any

from ray.experimental import internal_kv

from actors.runtime.names import NAMESPACE

_PREFIX = "weir:"


def put(name: str, value: Any) -> None:
    """Keep what JSON can say. ValueError for numbers it cannot."""
    internal_kv._internal_kv_put(
        _PREFIX + name, json.dumps(value, allow_nan=False).encode(), overwrite=True, namespace=NAMESPACE
    )


def get(name: str) -> Any:
    """None if there is nothing of that name."""
    value: bytes | None = internal_kv._internal_kv_get(_PREFIX + name, namespace=NAMESPACE)
    return None if value is None else json.loads(value)


def delete(name: str) -> None:
    """Idempotent."""
    internal_kv._internal_kv_del(_PREFIX + name, namespace=NAMESPACE)
