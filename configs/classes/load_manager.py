"""Settings of a class's load manager; defaults are those of the DILoS authors unless a field says otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.base import Positive, Settings


class LoadSettings(Settings):
    """Settings of the load manager: load cycle, adaptive headroom (ALoMa), and limit on queued work."""

    cycle_ms: Positive = 150.0
    """Length of a load cycle in ms. At the end of a load cycle, the manager checks load and response times, and sets the drop rate."""

    redistribute_every: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Number of load cycles between two redistributions of capacity."""

    step: Literal["size", "signed"] = "size"
    """Rule for the step by which headroom moves towards the load. `size` uses the size of the gap between headroom and
    load, as in the authors' implementation; `signed` uses the signed gap, as in the paper."""

    gap: Annotated[float, Field(ge=0, le=0.1)] = 0.05
    """Tolerance for response times: a response time is critical above (1 + gap) × target."""

    queue_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.7
    """Maximum time of queued work, as a fraction of the delay target; below 1, so that a full queue still meets the target."""

    headroom_start: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Initial headroom of a class, as a fraction of the class's share of the lanes."""

    max_drop: Annotated[float, Field(ge=0, le=0.95)] = 0.95
    """Maximum fraction of input dropped from any class, even if the class's own `max_drop` is higher."""
