"""Claims of a paper with the results of an experiment, and charts of the results.

The experiments of each paper are in a module or folder of `bench.papers`.
`python -m bench.papers` runs the experiments and prints their findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """Claim of a paper, with the result of the experiment."""

    where: str
    """Section or figure of the paper."""
    claim: str
    claimed: str
    got: str
    holds: bool
    why: str = ""
    """Reason why the claim does not hold, or not as printed. A failed claim without a reason makes `python -m bench.papers` fail."""
    rule: str = ""
    """Rule that decides `holds`, in words."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart of lines over an axis, or of bars by name."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    bars: Mapping[str, float] = field(default_factory=dict)
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    """Findings and charts of an experiment."""

    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class Experiment:
    """Set-up of a paper. The result of `run(quick)` depends only on `quick`: runs are seeded and read no clock. Quick runs take seconds."""

    paper: str
    """Key of the paper in `bench.papers.collection.PAPERS`."""
    name: str
    """Short name for the command line, for example sharaf-qos."""
    title: str
    run: Callable[[bool], ExperimentOutcome]
    setup: str = ""
    """Description of the run: machine, queries, input, and differences from the paper."""
