"""Claims of the papers that no experiment judges, and set-ups that no experiment repeats, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Part of a paper that `bench.papers` leaves out."""

    paper: str
    """Key of the paper in `bench.papers.collection.PAPERS`."""
    where: str
    kind: Literal["claim", "set-up"]
    text: str
    why: str


PICTURE = "the paper shows a picture and gives no figure; the HTML page draws the same chart"
PROTOTYPE = "the result depends on times of the prototype that the thesis does not give"
TRACE = "the packet trace is not available"

OMISSIONS: tuple[Omission, ...] = (
    Omission(
        paper="dilos",
        where="§III-A",
        kind="claim",
        text="CQC gives each class a part of the processor that is proportional to its priority",
        why="properties of the round robin test this for random classes (`tests/property`), so no experiment repeats it",
    ),
    Omission(paper="dilos", where="Figs. 2–5, 7, 8", kind="claim", text="the curves over time", why=PICTURE),
    Omission(
        paper="dilos",
        where="§V, Fig. 6",
        kind="set-up",
        text="S_steps with the paper's rates of class 1",
        why="the rates are shown only in a picture, so the preset has rates of its own",
    ),
    Omission(
        paper="dilos",
        where="§V",
        kind="set-up",
        text="other experiments with classes of different queries",
        why="the paper mentions them and reports nothing of them",
    ),
    Omission(
        paper="sharaf",
        where="§3.8.1.8, Fig. 14",
        kind="claim",
        text="slowdown by selectivity for cheap queries: HR is least fair, then HNR, then BSD",
        why=PICTURE.partition(";")[0],
    ),
    Omission(
        paper="sharaf",
        where="§3.8.1.10, Fig. 16",
        kind="set-up",
        text="an oracle policy that knows whether a tuple will lead to an answer",
        why="Weir has no such policy, and no real system can have it",
    ),
    Omission(
        paper="sharaf",
        where="§3.8.1.11, Figs. 17–20",
        kind="set-up",
        text="the policies over time",
        why=TRACE,
    ),
    Omission(
        paper="sharaf",
        where="§3.8.1.13, Figs. 23, 24",
        kind="claim",
        text="the size of the hybrid's improvement over EDF and HR",
        why="the figures enlarge parts of Fig. 22 and give no numbers; Fig. 22 is judged",
    ),
    Omission(
        paper="sharaf",
        where="§3.8.5, Figs. 33, 34",
        kind="set-up",
        text="the adaptive scheduler with other window lengths and values of α",
        why="not repeated yet. Weir's windows differ on purpose: they are longer for operators that rarely emit",
    ),
    Omission(
        paper="sharaf",
        where="§4.5.1, Fig. 36",
        kind="claim",
        text="FAS is 30% fresher than HR at utilisation 0.1",
        why="not judged yet; the claims at utilisation 0.95 are judged",
    ),
    Omission(
        paper="sharaf",
        where="§4.5.3, Fig. 41",
        kind="set-up",
        text="staleness by skew of the selectivities",
        why="not repeated yet, because Weir's test bed draws selectivities uniformly and not by Zipf's law",
    ),
    Omission(
        paper="sharaf", where="§4.5.5, Fig. 43", kind="set-up", text="staleness with real data", why=TRACE
    ),
    Omission(
        paper="carney",
        where="§2.4.1.3, Fig. 2.9",
        kind="claim",
        text="50 partitions with 10 rounds of k-means give a good solution first, in 62 s",
        why="the time depends on the machine; `python -m bench freshening` measures times",
    ),
    Omission(
        paper="carney",
        where="§2.5.3",
        kind="claim",
        text="k-means also improves partitions of objects of different sizes",
        why="not judged yet, and the thesis gives no figure",
    ),
    Omission(
        paper="carney",
        where="§3.2, Fig. 3.3",
        kind="set-up",
        text="one thread per box compared with one scheduler",
        why="Weir has no threads per operator",
    ),
    Omission(
        paper="carney",
        where="§3.4.5, Fig. 3.10",
        kind="claim",
        text="the parts of the overhead: worker threads, storage, scheduler",
        why=PROTOTYPE,
    ),
    Omission(
        paper="carney",
        where="§4.3, §4.4, Figs. 4.2–4.6",
        kind="set-up",
        text="box-at-a-time scheduling by deadline, and the size of schedules",
        why=PROTOTYPE,
    ),
    Omission(
        paper="carney",
        where="§4.4.3, Figs. 4.12, 4.13",
        kind="set-up",
        text="QoS and overhead by the number of buckets",
        why=PROTOTYPE,
    ),
    Omission(
        paper="carney",
        where="§4.5, Fig. 4.14",
        kind="set-up",
        text="push-through in shallow and deep queries",
        why=PROTOTYPE,
    ),
    Omission(
        paper="carney",
        where="§4.5.1, Fig. 4.15",
        kind="claim",
        text="bucketing sustains 4,500 tuples/s, the other schedulers 3,500",
        why=PROTOTYPE,
    ),
    Omission(
        paper="carney",
        where="§4.6.2, Figs. 4.18, 4.19",
        kind="claim",
        text="QoS over time in bursts",
        why=PICTURE.partition(";")[0],
    ),
    Omission(
        paper="carney",
        where="§4.7, Figs. 4.25, 4.26",
        kind="set-up",
        text="ten trees with fan-out two behave like 80 straight queries",
        why="the thesis gives neither costs nor rates",
    ),
    Omission(
        paper="golab",
        where="§5.2, §5.3, Figs. 5–8",
        kind="claim",
        text="numbers of answers per second, and latencies",
        why="the paper does not give the cost of a run, so only ratios between schedules are judged",
    ),
    Omission(
        paper="golab",
        where="§5.1",
        kind="claim",
        text="late sharing is worse with conservative scheduling than with hybrid scheduling",
        why="not judged yet; the same claim on late-pending sharing is judged",
    ),
    Omission(
        paper="golab",
        where="§5.1",
        kind="set-up",
        text="other window sizes",
        why="the paper leaves the results out",
    ),
    Omission(
        paper="mavstream",
        where="§6.2, §6.3, Figs. 6.1, 6.2",
        kind="set-up",
        text="latency and maximum memory by rates from 100 to 900 tuples/s",
        why="the thesis does not give the costs of tuples, so rates cannot be turned into loads. One load with bursts is judged",
    ),
    Omission(paper="mavstream", where="§6.5, Fig. 6.7", kind="claim", text="memory over time", why=PICTURE),
)
