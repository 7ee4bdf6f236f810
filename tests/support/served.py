"""A service on a free port of this machine, with its own catalog."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from configs.service.service_settings import ServiceSettings
from services.api.server import Serving
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog, opened
from services.client import Client
from services.common.weir_home import Home


@dataclass(frozen=True)
class Served:
    """Running service, with its address and its catalog."""

    serving: Serving
    service: Service

    @property
    def url(self) -> str:
        return self.serving.url

    @property
    def catalog(self) -> Catalog:
        return self.service.catalog

    def key(self, *scopes: str) -> str:
        """Return a new API key with the given scopes. The name of the principal is made of the scopes."""
        name = "-".join(scopes).replace(":", ".")
        key, _ = self.catalog.keys.create(name, scopes, "test")
        self.service.snapshot.refresh()
        return key

    def client(self, *scopes: str) -> Client:
        return Client(self.url, self.key(*scopes or ("admin",)), timeout_s=10.0)


def certificate_in(folder: Path, name: str = "IP:127.0.0.1") -> tuple[Path, Path]:
    """Create a self-signed certificate for an address or a name, and return the files with the certificate and its private key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    program = shutil.which("openssl")
    assert program is not None
    options = ["-newkey", "rsa:2048", "-nodes", "-x509", "-days", "2", "-subj", "/CN=weir"]
    options += ["-addext", f"subjectAltName={name}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([program, "req", *options], check=True, stderr=subprocess.DEVNULL)
    return certificate, key


@contextmanager
def served(folder: Path, settings: ServiceSettings | None = None) -> Iterator[Served]:
    with opened(Home(folder)) as catalog:
        service = service_of(catalog, settings or ServiceSettings(port=0))
        with Serving(service) as serving:
            yield Served(serving, service)
