"""When a class answers windows that slide by at most so much, and which of them together (Golab; `engine.windows.window_schedule`)."""

from __future__ import annotations

from configs.base import Settings
from configs.classes.periodic_schedules import Late, PeriodicKind


class WindowSettings(Settings):
    """Of windows over the same panes. Windows with an exact SLIDE are answered at its multiples, whatever is said here."""

    schedule: PeriodicKind = "hybrid"
    """What `SLIDE AT MOST` windows slide by: their own bounds without (`none`) or with (`conservative`) common scans, the
    shortest bound of all (`aggressive`), or what is cheapest for all of them (`hybrid`). With `none`, windows with an exact SLIDE
    have scans of their own as well."""

    late: Late = "off"
    """When event time has passed several ends at once: windows slide by their whole bounds, those that are late together
    (`late`), or those that are late or due (`late-pending`)."""
