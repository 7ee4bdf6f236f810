"""Schedule of a class's windows with SLIDE AT MOST (Golab; `engine.windows.window_schedule`)."""

from __future__ import annotations

from configs.base import Settings
from configs.classes.periodic_schedules import Late, PeriodicKind


class WindowSettings(Settings):
    """Schedule of windows with SLIDE AT MOST. Windows with an exact SLIDE are always answered at multiples of the SLIDE."""

    schedule: PeriodicKind = "hybrid"
    """Slides of the `SLIDE AT MOST` windows over the same panes: the declared bound of each window (`none`,
    `conservative`), the shortest bound of all windows (`aggressive`), or the slides with the least total cost (`hybrid`).
    With `none`, every window is computed separately, even with an exact SLIDE; otherwise windows that end together share
    one scan of panes."""

    late: Late = "off"
    """Windows that may share an end when event time has passed several window ends at once: late windows (`late`), or late and due windows
    (`late-pending`). Late windows then slide by their full bounds. With `off`, late ends do not change."""
