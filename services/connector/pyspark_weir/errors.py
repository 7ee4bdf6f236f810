"""Errors that the connector raises on purpose. Messages name the wrong value and say what to do, but never show a key.

All these errors are a WeirError.
- OptionError: an option is unknown, missing or wrong. Nothing was sent.
- Refused: the gateway refuses the call, and would refuse it again, for example because of the key or the schema.
- GatewayAway: the gateway did not respond or had no room within timeoutSeconds. A restarted query repeats the batch.
- DataLoss: the gateway no longer keeps rows that were to be read.
"""

from __future__ import annotations


class WeirError(Exception):
    """Base class of all errors that the connector raises on purpose."""


class OptionError(WeirError, ValueError):
    """Error for an unknown, missing or wrong option; nothing was sent."""


class Refused(WeirError):
    """Error for a call that the gateway refuses, and would refuse again if the call was repeated."""


class GatewayAway(WeirError):
    """Error for a gateway that did not respond, or had no room, within timeoutSeconds."""


class DataLoss(WeirError):
    """Error for rows that the gateway no longer stores. The attribute `kept` is the number of the first row that the gateway stores."""

    def __init__(self, text: str, kept: int) -> None:
        super().__init__(text, kept)
        self.text, self.kept = text, kept

    def __str__(self) -> str:
        return self.text
