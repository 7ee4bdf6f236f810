"""Experiments of all papers, in the order in which reports list them, and functions that find experiments by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.papers import carney, dilos, freshening, golab, mavstream, sharaf
from bench.papers.claim import Experiment, ExperimentOutcome, Finding, check_unique
from configs.errors import UnknownName, nearest

Results = Sequence[tuple[Experiment, ExperimentOutcome]]
"""Experiments that were run, in the collection's order, each with its outcome."""


@dataclass(frozen=True, slots=True)
class Paper:
    """Paper with claims that the experiments test."""

    short: str
    """Name by which the claims' sources refer to the paper."""
    title: str
    authors: str


PAPERS: Mapping[str, Paper] = {
    "dilos": Paper(
        "DILoS",
        "DILoS: A Dynamic Integrated Load Manager and Scheduler for Continuous Queries",
        "T. N. Pham, L. Al Moakar, P. K. Chrysanthis, A. Labrinidis",
    ),
    "sharaf": Paper(
        "Sharaf",
        "Metrics and Algorithms for Processing Multiple Continuous Queries",
        "M. A. Sharaf, thesis, Pittsburgh 2007",
    ),
    "carney": Paper("Carney", "Application-Aware Resource Scheduling", "D. P. Carney, thesis, Brown 2005"),
    "golab": Paper(
        "Golab",
        "Multi-Query Optimization of Sliding Window Aggregates by Schedule Synchronization",
        "L. Golab, K. G. Bijay, M. T. Özsu, Waterloo 2006",
    ),
    "mavstream": Paper(
        "MavStream",
        "Design and Implementation of Scheduling Strategies and Their Evaluation in MavStream",
        "V. K. Pajjuri, thesis, Arlington 2004",
    ),
}

# All experiments, in the order of `PAPERS`.
EXPERIMENTS: tuple[Experiment, ...] = tuple(
    experiment
    for paper in PAPERS
    for module in (dilos, sharaf, carney, freshening, golab, mavstream)
    for experiment in module.EXPERIMENTS
    if experiment.paper == paper
)
check_unique("experiment", [experiment.name for experiment in EXPERIMENTS])


def tally(findings: Sequence[Finding]) -> str:
    """Return in words how many claims hold, and how many figures agree."""
    figured = [finding for finding in findings if finding.agrees is not None]
    agree = sum(finding.agrees is True for finding in figured)
    hold = sum(finding.holds for finding in findings)
    return f"{hold} of {len(findings)} claims hold. {agree} of {len(figured)} claims with figures agree."


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return experiments by their names or by the names of their papers, in the order of the collection; without names, all experiments."""
    experiments = {
        *(experiment.name for experiment in EXPERIMENTS),
        *(experiment.paper for experiment in EXPERIMENTS),
    }
    for name in names:
        if name not in experiments:
            raise UnknownName(
                "there is no experiment and no paper of this name", "NAMES", name, nearest(name, experiments)
            )
    return tuple(
        experiment
        for experiment in EXPERIMENTS
        if not names or experiment.name in names or experiment.paper in names
    )


def named(name: str) -> Experiment:
    return next(experiment for experiment in EXPERIMENTS if experiment.name == name)
