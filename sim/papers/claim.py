"""A claim of a paper beside what came out, and the pictures that go with it.

Every paper has a module here with its experiments; `weir papers` runs them and writes what they found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim."""

    where: str
    """Section or figure of the paper."""
    claim: str
    claimed: str
    got: str
    holds: bool
    why: str = ""
    """Where it does not hold, or not as printed: why. A claim that fails without one is a failure of `weir papers`."""
    rule: str = ""
    """By which `holds` was decided, in words."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one axis, or bars over names."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    bars: Mapping[str, float] = field(default_factory=dict)
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    """What an experiment came to."""

    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class Experiment:
    """A set-up of a paper. `run(quick)` is a function of its argument alone: seeded, no clock; quick ones take seconds."""

    paper: str
    """A key of `sim.papers.collection.PAPERS`."""
    name: str
    """Short, for the command line: sharaf-qos."""
    title: str
    run: Callable[[bool], ExperimentOutcome]
    setup: str = ""
    """What is run, in words: machine, queries, input, and where that differs from the paper's."""
