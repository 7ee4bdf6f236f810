"""Run time of a query: when a continuous query starts, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, model_validator

from configs.base import Settings
from configs.durations import HOW_TO_WRITE, UNITS_S, seconds_in
from configs.errors import Contradiction

LIFETIME_MAX_S = 36_500 * UNITS_S["d"]


def known_lifetime(text: str) -> str:
    """Return the text of a lifetime; raise Contradiction if it is not a length of time, is 0, or is too long."""
    seconds = seconds_in(text)
    if seconds is None:
        raise Contradiction("this is not a length of time", value=text, hint=HOW_TO_WRITE)
    if seconds == 0:
        raise Contradiction("a lifetime must be longer than 0", value=text, hint=HOW_TO_WRITE)
    if seconds > LIFETIME_MAX_S:
        hint = "write at most 36500d, or leave `lifetime` out"
        raise Contradiction("the lifetime is longer than 100 years", value=text, hint=hint)
    return text


def in_utc(time: datetime) -> datetime:
    """Return the same time in UTC; raise Contradiction if the year is out of range there."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        hint = "choose a time in the years 2 to 9998"
        raise Contradiction("the time is out of range", value=time.isoformat(), hint=hint) from None


UtcTime = Annotated[AwareDatetime, AfterValidator(in_utc)]
Lifetime = Annotated[str, AfterValidator(known_lifetime)]


class RunTime(Settings):
    """Start and end of a query. Without these fields, a query runs from its declaration until it is deleted."""

    start: UtcTime | None = None
    """Time, with time zone, from which the query runs. Before this time, the query reads nothing."""

    stop: UtcTime | None = None
    """Time, with time zone, at which the query ends. The query stays declared, and its kept answers stay readable."""

    lifetime: Lifetime | None = None
    """Time from the start of the query to its end, such as 90d, 12h or 30m, instead of `stop`. Without `start`, the time of the declaration is stored as `start`."""

    @property
    def stop_at(self) -> datetime | None:
        """Time at which the query ends; None if it does not end, or if its lifetime has no start yet."""
        if self.lifetime is None:
            return self.stop
        seconds = seconds_in(self.lifetime)
        assert seconds is not None
        return None if self.start is None else self.start + timedelta(seconds=seconds)

    @model_validator(mode="after")
    def ends_after_its_start(self) -> Self:
        if self.stop is not None and self.lifetime is not None:
            raise Contradiction(
                "a query cannot have both a stop and a lifetime",
                "lifetime",
                self.lifetime,
                "remove `stop` or `lifetime`",
            )
        try:
            stop = self.stop_at
        except OverflowError:
            hint = "choose an earlier start, or leave `lifetime` out"
            raise Contradiction(
                "the query would end after the year 9999", "lifetime", self.lifetime, hint
            ) from None
        if self.start is not None and stop is not None and stop <= self.start:
            raise Contradiction(
                f"the query would end before it starts at {self.start.isoformat()}",
                "stop",
                stop.isoformat(),
                "choose a stop after the start",
            )
        return self
