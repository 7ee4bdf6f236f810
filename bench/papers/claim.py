"""Claims of a paper with the results of an experiment, and charts of the results.

The experiments of each paper are in a module or folder of `bench.papers`.
`python -m bench.papers` runs the experiments and prints their findings.

A finding has two verdicts. A claim *holds* if the result has the direction of the claim. A claim *agrees* if each measured figure is
within 25% of the paper's figure, above or below; a claim without a figure can only hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Maximum difference between a measured figure and the paper's figure, as a part of the paper's figure.
AGREES_WITHIN = 0.25


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """Figure that a paper prints, and the measured figure in the same unit."""

    claimed: float
    measured: float

    @property
    def agrees(self) -> bool:
        """True if the measured figure is near the paper's figure. A figure of 0 must be measured as 0."""
        return abs(self.measured - self.claimed) <= AGREES_WITHIN * abs(self.claimed)


def figures_of(claimed: Sequence[float], measured: Sequence[float]) -> tuple[PaperFigure, ...]:
    return tuple(PaperFigure(paper, own) for paper, own in zip(claimed, measured, strict=True))


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
    """Known reason why the claim does not hold, or why a figure differs; unused if the claim holds and agrees. A claim that does not
    hold for no known reason makes `python -m bench.papers` fail."""
    rule: str = ""
    """Rule that decides `holds`, in words."""
    figures: tuple[PaperFigure, ...] = ()
    """Figures that decide `agrees`; empty if the paper gives no figure."""
    seeds: int | None = None
    """Number of seeds in the full form, if it differs from that of the experiment."""
    note: str = ""
    """Condition under which the result was found, for example a parameter that the paper does not give."""

    @property
    def agrees(self) -> bool | None:
        """True if all figures are near those of the paper; None if the paper gives no figure."""
        return all(figure.agrees for figure in self.figures) if self.figures else None

    @property
    def deviates(self) -> bool:
        """True if the claim does not hold, or if a figure is not near that of the paper."""
        return not self.holds or self.agrees is False

    @property
    def reason(self) -> str:
        """Known reason of a claim that does not hold or does not agree; otherwise empty."""
        return self.why if self.deviates else ""


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
    """Findings and charts of an experiment. Each finding is about another claim."""

    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...] = ()

    def __post_init__(self) -> None:
        check_unique("claim", [finding.claim for finding in self.findings])


def check_unique(kind: str, keys: Sequence[str]) -> None:
    """Raise an error if a key occurs twice, because results are found by their keys."""
    for key, count in Counter(keys).items():
        if count > 1:
            raise ValueError(f"each {kind} needs its own words (got {key!r} {count} times)")


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
    seeds: int = 1
    """Number of seeds in the full form; 0 if nothing is random."""
