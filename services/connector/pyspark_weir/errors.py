"""What the connector reports on purpose. A message says what is wrong, with the value, and what to do; never a key.

WeirError
├── OptionError   an option is unknown, missing or wrong: nothing was sent
├── Refused       the gateway refuses what repeating does not cure: a key, a stream's name, a schema
├── GatewayAway   no answer within timeoutSeconds: the query fails, and repeats the batch when it is started again
└── DataLoss      rows that were to be read are kept no longer
"""

from __future__ import annotations


class WeirError(Exception):
    """Anything the connector reports on purpose."""


class OptionError(WeirError, ValueError):
    """The caller's mistake; nothing was sent."""


class Refused(WeirError):
    """Sent again, it would be refused again."""


class GatewayAway(WeirError):
    """The gateway was not reached, or had no room, for as long as the caller would wait."""


class DataLoss(WeirError):
    """The gateway has forgotten rows that were to be read; `kept` is where it remembers again."""

    def __init__(self, text: str, kept: int) -> None:
        super().__init__(text, kept)
        self.text, self.kept = text, kept

    def __str__(self) -> str:
        return self.text
