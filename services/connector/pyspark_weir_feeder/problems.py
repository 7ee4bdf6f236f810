"""Errors that the feeder raises on purpose. All of them are a FeederError.

- InvalidOption: an option is wrong. The message names the option, and nothing was read.
- ChangedReplay: files or options have changed, so that the query cannot continue from its checkpoint.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FeederError(ValueError):
    """Base class of the feeder's errors. The message of an error says what is wrong, where, and what to do."""


class InvalidOption(FeederError):
    """Error for a wrong option."""

    def __init__(self, option: str, what: str, value: object = None) -> None:
        super().__init__(option, what, value)

    def __str__(self) -> str:
        option, what, value = self.args
        return f"option {option}: {what}" + ("" if value is None else f" (got {value!r})")


class ChangedReplay(FeederError):
    """Error for a query that cannot continue from its checkpoint, because files or options have changed."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for the error about an unknown name: the most similar known name, or else all known names."""
    by_lower = {name_known.lower(): name_known for name_known in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f"did you mean {by_lower[near[0]]}?" if near else f"known: {', '.join(by_lower.values())}"
