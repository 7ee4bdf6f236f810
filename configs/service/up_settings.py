"""Settings of `weir up` in one file (`--config`): the running system, its gateways, its service, and its cluster.

The chart in helm/weir writes this file from its values; `weir config render` prints it.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from configs.base import NonNegative, Settings
from configs.classes.live_class import LiveSettings
from configs.errors import Contradiction
from configs.service.service_settings import ServiceSettings

NODE = "node"
"""Value for a host that stands for the address by which Ray knows the machine."""


class GatewaySettings(Settings):
    """Gateway of each node, to which producers and readers on other machines connect."""

    host: Annotated[str, Field(min_length=1, max_length=253)] = "127.0.0.1"
    """Address at which the gateway listens. `node` stands for the address by which Ray knows each machine."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port at which the gateway listens; 0 chooses a free port."""


class ClusterSettings(Settings):
    """Ray cluster on which the system runs."""

    address: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """Address of a Ray cluster in Ray's form (`auto` or `HOST:PORT`). Without an address, `weir up` starts Ray on this
    machine, and stops Ray when it ends."""

    wait_s: NonNegative = 0.0
    """Seconds to wait at most for the cluster to answer."""

    pin_lanes: bool = False
    """Bind each lane to a processor. Leave binding off on machines with other programs, which may use the same processors. Without
    `address`, lanes are always bound."""


class UpSettings(Settings):
    """All settings of `weir up`."""

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
            title = "`host: node` needs a Ray cluster, but `cluster.address` is missing"
            hint = "add cluster.address, or give the address of this machine as host"
            raise Contradiction(title, "gateway.host", self.gateway.host, hint)
        return self
