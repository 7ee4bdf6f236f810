"""Measurements of a unit in each load cycle: response times, quality, losses, flow and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from actors.host.failure_counts import FailureCounts
from actors.host.recent_latency import LateShares, Recent, RecentFigures, RecentFlow
from actors.host.slice_counts import Counting
from actors.host.unit_quality import UnitWorth, WorthFigures
from actors.messages.unit_messages import Account, Failure, Figures, UnitCounts
from engine.class_.hosted_class import HostedClass
from loadshed.ledger import TupleLedger


class UnitMeasurements:
    """Measurements of a unit since it was opened; measurements of recent answers and input start again after the unit has slept."""

    def __init__(self, hosted: HostedClass, now: float, recovered: bool) -> None:
        self.counting = Counting(recovered=recovered)
        self.figures = Figures()
        """Figures of the unit at the end of its last load cycle."""
        self._hosted = hosted
        self._worth = UnitWorth(hosted.runner.scheduled.alone)
        self._late = LateShares()
        self._failing = FailureCounts()
        self._late_now: dict[str, float] = {}
        self.begin_recent(now)

    def begin_recent(self, now: float) -> None:
        """Begin the measurements of recent answers and input again."""
        ledgers = {stream: ledger for stream, (ledger, _) in self._hosted.input.accounts().items()}
        self._recent = Recent(now, self._hosted.queries.answers)
        self._flow = RecentFlow(now, ledgers)
        self.begin_quality(now)
        self._hosted.times.begin_recent()

    def begin_quality(self, now: float) -> None:
        self._worth.begin(now, self._hosted.runner.answers.quality)

    def end_recent(self, now: float) -> None:
        """Update recent response times, also while steps are repeated after a crash."""
        if self._recent.end_cycle(now, self._hosted.queries.answers, self._hosted.times.recent):
            self._hosted.times.begin_recent()

    def end_cycle(
        self, now: float, asleep: bool
    ) -> tuple[dict[str, Account], UnitCounts, tuple[Failure, ...]]:
        """Return the accounts of streams, the counts, and the largest failures of operators."""
        hosted = self._hosted
        self._worth.end_cycle(now, hosted.runner.answers.quality, asleep)
        accounts = hosted.input.accounts()
        ledgers = {stream: ledger for stream, (ledger, _) in accounts.items()}
        self._late_now = self._late.end_cycle(now, ledgers)
        failures = self._failing.end_cycle(now, hosted.runner, asleep)
        self._flow.end_cycle(now, ledgers)
        return accounts, self.counting.told(hosted, now, self._worth.queries), failures

    def measure(self, accounts: Mapping[str, Account], asleep: bool) -> Figures:
        """Return the figures of the unit for reports, such as queue length, response times and rates."""
        hosted, total = self._hosted, sum((ledger for ledger, _ in accounts.values()), TupleLedger())
        account, responses = hosted.runner.network.account, hosted.times.total
        recent, worth = self._recent.figures, self._worth.figures
        if asleep:
            # The rates of a sleeping unit are set to 0, because the values measured before the sleep are outdated.
            recent = replace(recent, results_per_s=0.0)
            worth = WorthFigures(worth.utility, worth.slowdown, worth.staleness, worth.tardiness)
        return Figures(
            queued=sum(queued for _, queued in accounts.values()),
            results=hosted.queries.answers,
            state_bytes=account.state + account.queued,
            within_target_pct=responses.target_met_pct(),
            response_ms=responses.response_ms(),
            queue_bytes=account.queued,
            late_now=self._late_now,
            shed_now=0.0 if asleep else self._flow.shed,
            taken_per_s=0.0 if asleep else self._flow.taken_per_s,
            **values_of(total),
            **values_of(recent),
            **values_of(worth),
        )


def values_of(record: TupleLedger | RecentFigures | WorthFigures) -> dict[str, Any]:
    """Return the fields of a record by name; Figures has fields with the same names."""
    return {column.name: getattr(record, column.name) for column in fields(record)}
