"""What the feeder refuses.

FeederError              anything the feeder reports on purpose
├── InvalidOption        an option that is wrong, by its name; nothing was read
└── ChangedReplay        what a checkpoint stands on is no longer what it was: its rows cannot be given again
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FeederError(ValueError):
    """What is wrong, where, and what to do."""


class InvalidOption(FeederError):
    """The caller's mistake."""

    @classmethod
    def named(cls, option: str, what: str, value: object = None) -> InvalidOption:
        got = "" if value is None else f" (got {value!r})"
        return cls(f"option {option}: {what}{got}")


class ChangedReplay(FeederError):
    """Rows promised to a checkpoint are gone."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses `name`: the nearest known name, or all of them."""
    by_lower = {name_known.lower(): name_known for name_known in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f"did you mean {by_lower[near[0]]}?" if near else f"there are {', '.join(by_lower.values())}"
