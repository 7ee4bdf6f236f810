"""What an ingest is told: the streams, where their rows go, and where it may write. It travels as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from configs.documents.spark_streams import FeedDefinition, StreamsFile

# A gateway that is away for longer shows as an error of the query, which is then started again.
PATIENCE_S = 30.0
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Where rows go."""

    endpoint: str
    api_key: str
    patience_s: float = PATIENCE_S
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """By stream, where nodes differ."""

    def of(self, stream: str) -> str:
        return self.endpoints.get(stream, self.endpoint)


@dataclass(frozen=True, slots=True)
class FeedSpec:
    """All that the query of a feed is made of. A feed is restarted when this changes, and only then."""

    definition: FeedDefinition
    declarations: Mapping[str, str]
    """CREATE STREAM statements by name, of the feed's streams."""
    endpoints: Mapping[str, str]
    """Gateways by stream."""
    api_key: str = field(repr=False)
    patience_s: float
    checkpoint: str


@dataclass(frozen=True, slots=True)
class IngestJob:
    """Paths are absolute: the JVM has ideas of its own about where it is."""

    file: StreamsFile
    door: GatewayAddress
    folder: Path
    java_home: Path
    niceness: int = 0
    """How far Spark gives way to other processes of the machine."""

    checkpoints: Path | None = None
    """Folder of the feeds' checkpoints; None: `checkpoints` in `folder`."""

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
            )
            for name, feed in self.file.all_feeds().items()
        }

    def secrets(self) -> tuple[str, ...]:
        """What is to be seen nowhere."""
        return (self.door.api_key, *self.file.secrets())

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file.model_dump(mode="json", by_alias=True),
            "door": asdict(self.door),
            "folder": str(self.folder),
            "java_home": str(self.java_home),
            "niceness": self.niceness,
            "checkpoints": None if self.checkpoints is None else str(self.checkpoints),
        }


def job_of(told: Mapping[str, Any]) -> IngestJob:
    file = StreamsFile.model_validate(told["file"])
    checkpoints = told["checkpoints"]
    return IngestJob(
        file=file,
        door=GatewayAddress(**told["door"]),
        folder=Path(told["folder"]),
        java_home=Path(told["java_home"]),
        niceness=told["niceness"],
        checkpoints=None if checkpoints is None else Path(checkpoints),
    )
