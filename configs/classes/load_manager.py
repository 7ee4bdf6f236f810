"""How a class's load manager behaves; the defaults are the DILoS authors' unless the reason says otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.base import Positive, Settings


class LoadSettings(Settings):
    """Load cycle, adaptive headroom (ALoMa), and the queue term."""

    cycle_ms: Positive = 150.0
    """Load cycle: monitors are compared and the drop rate moves this often."""

    redistribute_every: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Load cycles between two redistributions of capacity."""

    step: Literal["size", "signed"] = "size"
    """How the headroom moves: k from the size of the gap (the authors' implementation) or signed (as printed)."""

    gap: Annotated[float, Field(ge=0, le=0.1)] = 0.05
    """Response is critical above (1 + gap) × target."""

    queue_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.7
    """m of the queue term: work may queue for m × target; below 1 so that a full queue still meets the target."""

    headroom_start: Annotated[float, Field(gt=0, le=1)] = 1.0
    """First headroom, as a part of the class's share of the lanes."""

    max_drop: Annotated[float, Field(ge=0, le=0.95)] = 0.95
    """No class is shed beyond this, whatever its own limit says."""
