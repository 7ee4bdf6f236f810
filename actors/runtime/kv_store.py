"""Storage of JSON values by name in the key-value store of Ray's head, for data that must survive an actor's process.

The store lives as long as the cluster's head node, and survives even the head if Ray keeps its tables in a database.
`ray.experimental.internal_kv` is not a stable interface of Ray, although Ray Serve stores its own checkpoints with it. Only this
module uses it.

After `put` has returned, `get` returns the value in every process of the cluster; the last `put` wins.
"""

from __future__ import annotations

import json
from typing import Any

from ray.experimental import internal_kv

from actors.runtime.names import NAMESPACE

_PREFIX = "weir:"


def put(name: str, value: Any) -> None:
    """Store a JSON value under a name. Raise ValueError for NaN and infinite numbers."""
    internal_kv._internal_kv_put(
        _PREFIX + name, json.dumps(value, allow_nan=False).encode(), overwrite=True, namespace=NAMESPACE
    )


def get(name: str) -> Any:
    """Return the value stored under a name, or None."""
    value: bytes | None = internal_kv._internal_kv_get(_PREFIX + name, namespace=NAMESPACE)
    return None if value is None else json.loads(value)


def delete(name: str) -> None:
    """Delete the value stored under a name, if there is one."""
    internal_kv._internal_kv_del(_PREFIX + name, namespace=NAMESPACE)
