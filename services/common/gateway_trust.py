"""Trust in gateways that use TLS: which certificates a client accepts, and under which name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.flight as flight

from configs.errors import InvalidInput
from configs.service.up_settings import UpSettings

CA_VARIABLE, NAME_VARIABLE = "WEIR_GATEWAY_CA_FILE", "WEIR_GATEWAY_NAME"
SCHEMES = ("grpc://", "grpc+tls://")


@dataclass(frozen=True, slots=True)
class GatewayTrust:
    """Settings by which a client verifies the certificate of a gateway. A gateway without TLS needs no such settings."""

    ca_file: Path | None = None
    """PEM file with the certificates of the authorities that sign gateways' certificates; None for the authorities of gRPC."""

    server_name: str | None = None
    """Name in the certificates of all gateways; None if each gateway's certificate has the host name of its endpoint."""

    def connect(self, endpoint: str) -> flight.FlightClient:
        """Return a client of the gateway at `endpoint`. The client connects at its first call."""
        authorities = None if self.ca_file is None else readable(self.ca_file, "gateway.tls.ca_file")
        given = {"tls_root_certs": authorities, "override_hostname": self.server_name}
        return flight.connect(endpoint, **{name: value for name, value in given.items() if value is not None})


DEFAULT_TRUST = GatewayTrust()
"""Settings for gateways without TLS, and for gateways with certificates that gRPC trusts by default."""


def readable(file: Path, name: str) -> bytes:
    """Return the contents of a PEM file; raise InvalidInput with the setting's name if the file cannot be read."""
    try:
        return file.read_bytes()
    except OSError as problem:
        why = problem.strerror or type(problem).__name__
        raise InvalidInput(f"this file cannot be read: {why}", name, str(file), "name a PEM file") from None


def trust_of(settings: UpSettings) -> GatewayTrust:
    """Return the settings by which `weir up` verifies the certificates of its own gateways."""
    tls = settings.gateway.tls
    return GatewayTrust() if tls is None else GatewayTrust(tls.ca_file, tls.server_name)


def trust_from(environ: Mapping[str, str]) -> GatewayTrust:
    """Return the settings in the environment variables WEIR_GATEWAY_CA_FILE and WEIR_GATEWAY_NAME."""
    ca_file = environ.get(CA_VARIABLE)
    if ca_file:
        # The file is read now, so that a wrong path is reported at once instead of by each connection.
        readable(Path(ca_file), CA_VARIABLE)
    return GatewayTrust(Path(ca_file) if ca_file else None, environ.get(NAME_VARIABLE) or None)
