"""Settings of `weir up` in one file (`--config`): the running system, its gateways, its service, and its cluster.

The chart in helm/weir writes this file from its values; `weir config render` prints it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from configs.base import NonNegative, Settings
from configs.classes.live_class import LiveSettings
from configs.errors import Contradiction
from configs.service.service_settings import ServiceSettings

NODE = "node"
"""Value for a host that stands for the address by which Ray knows the machine."""


class GatewayTls(Settings):
    """TLS of the gateways. Every machine with a gateway or with the service has these files."""

    certificate: Path
    """PEM file of the gateways' certificate with its chain."""

    key: Path
    """PEM file of the certificate's private key."""

    ca_file: Path | None = None
    """PEM file with the authorities that signed the certificate. The service verifies gateways with it. Without this file, the service
    trusts the authorities that gRPC knows."""

    server_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name in the certificate. It is needed if the certificate does not contain the address of every gateway."""


class GatewaySettings(Settings):
    """Gateway of each node, to which producers and readers on other machines connect."""

    host: Annotated[str, Field(min_length=1, max_length=253)] = "127.0.0.1"
    """Address at which the gateway listens. `node` stands for the address by which Ray knows each machine."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port at which the gateway listens; 0 chooses a free port."""

    tls: GatewayTls | None = None
    """TLS for producers and readers. Without TLS, keys and rows cross the network in clear."""


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
