"""Committed results of full runs, from which docs/papers.md is written.

A full run of an experiment replaces the experiment's part of the record. The page is then written from the record, so the page and the
record always say the same, and a test can compare them without running an experiment.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from pydantic import TypeAdapter

from bench.papers.claim import ExperimentOutcome, Finding, check_unique
from bench.papers.collection import EXPERIMENTS

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "bench" / "papers" / "results.json"
UNKNOWN_COMMIT = "unknown"


@dataclass(frozen=True, kw_only=True)
class ExperimentRecord:
    """Findings of the last full run of one experiment."""

    name: str
    commit: str
    """Commit of the code that was run. Ends with a plus sign if files were changed since that commit."""
    minutes: float
    """Processor time of the run."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class PaperRecord:
    """Last full run of each experiment. A claim's words occur only once in all experiments, so that no result replaces another."""

    experiments: tuple[ExperimentRecord, ...] = ()

    def __post_init__(self) -> None:
        check_unique("experiment", [experiment.name for experiment in self.experiments])
        claims = (finding.claim for experiment in self.experiments for finding in experiment.findings)
        check_unique("claim", list(claims))

    def findings(self, name: str) -> tuple[Finding, ...]:
        """Return the findings of an experiment; none if the experiment has no full run."""
        return tuple(
            chain.from_iterable(record.findings for record in self.experiments if record.name == name)
        )

    def renewed(self, runs: Sequence[ExperimentRecord]) -> PaperRecord:
        """Return the record with the results of new runs. Experiments that no longer exist are left out."""
        latest = {record.name: record for record in (*self.experiments, *runs)}
        names = [experiment.name for experiment in EXPERIMENTS]
        return replace(self, experiments=tuple(latest[name] for name in names if name in latest))

    @property
    def minutes(self) -> Mapping[str, float]:
        """Processor time of each experiment."""
        return {record.name: record.minutes for record in self.experiments}


FORM = TypeAdapter(PaperRecord)


def load_record(path: Path = RECORD) -> PaperRecord:
    return FORM.validate_json(path.read_bytes()) if path.exists() else PaperRecord()


def save_record(record: PaperRecord, path: Path = RECORD) -> None:
    path.write_bytes(FORM.dump_json(record, indent=1) + b"\n")


def rounded(outcome: ExperimentOutcome) -> tuple[Finding, ...]:
    """Return the findings with figures of six digits, so that the record can be read."""
    return tuple(
        replace(
            finding,
            figures=tuple(
                replace(figure, measured=float(f"{figure.measured:.6g}")) for figure in finding.figures
            ),
        )
        for finding in outcome.findings
    )


def current_commit() -> str:
    """Return the commit of the checkout, with a plus sign if files were changed since."""
    commit = git("rev-parse", "--short=10", "HEAD")
    if not commit:
        return UNKNOWN_COMMIT
    changed = git("status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if changed else commit


def git(*arguments: str) -> str:
    """Return the output of a git command; empty if git or the repository is missing."""
    try:
        done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
