"""Job of an ingest process: the streams, the gateways for their rows, and the folders to write to. A job is sent to the process as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from configs.documents.spark_streams import FeedDefinition, StreamsFile
from services.common.gateway_trust import GatewayTrust

# Seconds for which a query repeats calls that the gateway does not accept. After that time the query fails, and is started again.
PATIENCE_S = 30.0
CHECKPOINTS = "checkpoints"
# Files in the folder of a job: the output of Spark's process, and Spark's log.
OUTPUT, LOG = "spark.out", "spark.log"


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Address and key of the gateway that rows are sent to."""

    endpoint: str
    api_key: str
    patience_s: float = PATIENCE_S
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Endpoints of the streams that the gateway of another node receives, by the stream's name."""
    ca_file: str | None = None
    """PEM file with the authorities that sign gateways' certificates; None for the authorities of gRPC."""
    server_name: str | None = None
    """Name in the certificates of all gateways; None if each certificate has the host name of its endpoint."""

    @property
    def trust(self) -> GatewayTrust:
        return GatewayTrust(None if self.ca_file is None else Path(self.ca_file), self.server_name)

    def trusting(self, trust: GatewayTrust) -> GatewayAddress:
        """Return this address with the CA file and the server name by which the TLS certificate of the gateway is checked."""
        ca_file = None if trust.ca_file is None else str(trust.ca_file.absolute())
        return replace(self, ca_file=ca_file, server_name=trust.server_name)

    def of(self, stream: str) -> str:
        return self.endpoints.get(stream, self.endpoint)


@dataclass(frozen=True, slots=True)
class FeedSpec:
    """All settings of a feed's query. The feed is restarted if one of these settings changes, and only then."""

    definition: FeedDefinition
    declarations: Mapping[str, str]
    """CREATE STREAM statement of each stream of the feed, by the stream's name."""
    endpoints: Mapping[str, str]
    """Endpoint of the gateway that receives each stream, by the stream's name."""
    api_key: str = field(repr=False)
    patience_s: float
    checkpoint: str
    ca_file: str | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class IngestJob:
    """Job of one ingest process. All paths are absolute, because the JVM may have another working folder."""

    file: StreamsFile
    door: GatewayAddress
    folder: Path
    java_home: Path
    niceness: int = 0
    """Niceness of Spark's process: with a higher value, Spark leaves more processor time to other processes of the machine."""
    checkpoints: Path | None = None
    """Folder of the feeds' checkpoints; None stands for `checkpoints` in `folder`."""

    def specs(self) -> dict[str, FeedSpec]:
        """Return the specification of each feed, by name."""
        checkpoints = self.checkpoints or self.folder / CHECKPOINTS
        return {
            name: FeedSpec(
                definition=feed,
                declarations={
                    stream: self.file.streams[stream].declaration(stream) for stream in feed.streams
                },
                endpoints={stream: self.door.of(stream) for stream in feed.streams},
                api_key=self.door.api_key,
                patience_s=self.door.patience_s,
                checkpoint=feed.source.checkpoint or str(checkpoints / name),
                ca_file=self.door.ca_file,
                server_name=self.door.server_name,
            )
            for name, feed in self.file.all_feeds().items()
        }

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets of the job, which logs and messages must never show: the API key and the secrets of sources."""
        return (self.door.api_key, *self.file.secrets())

    def as_json(self) -> bytes:
        return JOB_JSON.dump_json(self, by_alias=True)


JOB_JSON = TypeAdapter(IngestJob)
"""Conversion of a job to JSON, and back."""
