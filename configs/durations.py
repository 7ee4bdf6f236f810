"""Lengths of time as users write them: `90d`, `12h`, `30m` or `10s`."""

from __future__ import annotations

import re

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
HOW_TO_WRITE = "write 90d, 12h or 30m"


def seconds_in(text: str) -> float | None:
    """Return the seconds of a length of time; None if the text is not a length of time."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    return None if match is None else float(int(match[1]) * UNITS_S[match[2]])
