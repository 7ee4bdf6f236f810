"""How `weir up` is set, in one file (`--config`): the running system, its gateways, its service, and the cluster it is on.

The chart in helm/weir writes this file from its values; `weir config render` shows it.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from configs.base import NonNegative, Settings
from configs.classes.live_class import LiveSettings
from configs.errors import Contradiction
from configs.service.service_settings import ServiceSettings

NODE = "node"
"""In place of a host: the address by which Ray knows the machine."""


class GatewaySettings(Settings):
    """The door of each node for producers and readers beyond it."""

    host: Annotated[str, Field(min_length=1, max_length=253)] = "127.0.0.1"
    """Where it listens; `node`: the address by which Ray knows the machine, which differs from node to node."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """0: one that is free."""


class ClusterSettings(Settings):
    """The Ray that the system runs on."""

    address: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """Of a Ray cluster, as Ray takes it (`auto`, `HOST:PORT`); without it a Ray of this machine, which ends with `weir up`."""

    wait_s: NonNegative = 0.0
    """How long to wait for the cluster to answer."""

    pin_lanes: bool = False
    """Keep queries on processors of their own. On machines that others use, too, these may be theirs; a Ray of this machine
    is always pinned."""


class UpSettings(Settings):
    """All of it."""

    live: LiveSettings = LiveSettings()
    gateway: GatewaySettings = GatewaySettings()
    service: ServiceSettings = ServiceSettings()
    cluster: ClusterSettings = ClusterSettings()

    @property
    def on_cluster(self) -> bool:
        return self.cluster.address is not None

    @model_validator(mode="after")
    def is_known_by_ray(self) -> Self:
        if self.gateway.host == NODE and not self.on_cluster:
            raise Contradiction(
                "only a cluster has addresses of nodes",
                "gateway.host",
                self.gateway.host,
                "give cluster.address too, or the address of this machine",
            )
        return self
