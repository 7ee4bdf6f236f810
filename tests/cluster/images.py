"""Container images, written as OCI archives without a container engine."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
OCI = "application/vnd.oci.image"


@dataclass(frozen=True)
class Image:
    name: str
    """Name with a tag, for example `localhost/pause:1`."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Programs to copy, by their paths in the image."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Targets of symbolic links, by their paths in the image."""
    command: tuple[str, ...] = ()

    def write(self, archive: Path) -> None:
        """Write an archive that `ctr images import` reads."""
        layer = self.layer()
        config = {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Entrypoint": list(self.command), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
        }
        parts = [layer, as_json(config)]
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": described(parts[1], "config.v1+json"),
            "layers": [described(layer, "layer.v1.tar")],
        }
        parts.append(as_json(manifest))
        name = {"io.containerd.image.name": self.name}
        entry = {**described(parts[2], "manifest.v1+json"), "annotations": name}
        with tarfile.open(archive, "w") as output:
            add(output, "oci-layout", as_json({"imageLayoutVersion": "1.0.0"}))
            add(output, "index.json", as_json({"schemaVersion": 2, "manifests": [entry]}))
            for part in parts:
                add(output, f"blobs/{digest_of(part).replace(':', '/')}", part)

    def layer(self) -> bytes:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as output:
            for path, source in self.files.items():
                add(output, path, source.read_bytes(), 0o755)
            for path, target in self.links.items():
                link = tarfile.TarInfo(path)
                link.type, link.linkname = tarfile.SYMTYPE, target
                output.addfile(link)
        return content.getvalue()


def add(output: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    output.addfile(entry, io.BytesIO(content))


def described(content: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": f"{OCI}.{kind}", "digest": digest_of(content), "size": len(content)}


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def as_json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
