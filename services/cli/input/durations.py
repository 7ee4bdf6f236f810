"""Durations that users write on the command line, such as 90d, 12h, 30m or 10s."""

from __future__ import annotations

import re

from configs.errors import InvalidInput

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a duration; `option` is named in the error message."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if match is None:
        raise InvalidInput("this is not a duration", option, text, "write 90d, 12h or 30m")
    return float(int(match[1]) * UNITS_S[match[2]])
