"""Description of a class's state in one or two sentences, for `weir explain`, the API and the console."""

from __future__ import annotations

from dataclasses import dataclass

from configs.classes.objectives import WAYS
from configs.numbers import duration
from engine.sql import parse_create_stream
from services.watch.class_views import ClassView
from services.watch.losses import QUERIES_NAMED, failing
from services.watch.states import RECENT_S, TROUBLED, ClassState, in_query

# In these states, the description begins with the name of the state and the reason. Otherwise it begins with response times.
NAMED = TROUBLED | {ClassState.LATE, ClassState.LOSING, ClassState.HELD_BACK}
# Smallest fraction of a share or of the input that the description mentions.
LEAST = 0.005


@dataclass(frozen=True, slots=True)
class Lately:
    """Largest parts of the input (`drop`) and of the queue (`trimmed`) that were dropped in the last minute."""

    drop: float
    trimmed: float


NOTHING = Lately(0.0, 0.0)


def in_words(view: ClassView, lately: Lately = NOTHING) -> str:
    """Return sentences about a class's state. Recent shedding is mentioned, because `weir explain` shows recent decisions below the sentences."""
    condition = view.condition
    if condition.state in (ClassState.STARTING, ClassState.NO_QUERIES):
        return f"It {condition.reason.removeprefix('it ')}."
    if condition.state is ClassState.GIVEN_UP:
        return f"It is given up: {condition.reason}."
    if condition.state is ClassState.IDLE:
        shed = shed_lately(lately)
        return joined("It has no input and sleeps", shares(view), late(view), lost_in_queries(view), shed)
    if condition.state in NAMED:
        more = "" if condition.state in (ClassState.LATE, ClassState.LOSING) else condition.reason
        rest = joined(more, late(view), lost_in_queries(view), shares(view), loss(view, lately))
        return f"It is {condition.state}: {rest}"
    losses = loss(view, lately), late(view), lost_in_queries(view)
    return joined(response(view), worth(view), tardy(view), shares(view), *losses, *policy(view))


def joined(*parts: str) -> str:
    """Return the texts that are not empty, joined into one sentence."""
    return "; ".join(filter(None, parts)) + "."


def response(view: ClassView) -> str:
    target, p95 = view.settings.delay_target_ms, view.figures.p95_ms
    if not view.figures.results:
        return "It has not answered anything yet"
    if not p95:
        return f"It has given {view.figures.results:,} answers, none of them in the last {RECENT_S:g} s"
    side = "within" if p95 <= target else "above"
    return f"95% of its answers come within {duration(p95)}, {side} its target of {duration(target)}"


def worth(view: ClassView) -> str:
    """Return a text with the mean utility of the answers; an empty text if the answers lose no utility."""
    figures = view.figures
    if figures.utility_now > 1 - LEAST:
        return ""
    return f"their mean utility is {figures.utility_now:.0%}, and {figures.missed_now:.0%} came after their deadline"


def tardy(view: ClassView) -> str:
    """Return a text with the part of window answers that are tardy; an empty text if all are in time."""
    figures = view.figures
    if figures.tardy_now < LEAST:
        return ""
    mean_ms = figures.tardiness.get("mean_ms", 0.0)
    return f"{figures.tardy_now:.0%} of its window answers are tardy; the mean tardiness so far is {duration(mean_ms)}"


def shares(view: ClassView) -> str:
    moved = view.share - view.original
    if moved > LEAST:
        return f"it has its share of {view.original:.0%} of the lanes and borrows {moved:.0%}"
    if moved < -LEAST:
        return f"it has {view.share:.0%} of the lanes and lends {-moved:.0%}"
    return f"it has its share of {view.original:.0%} of the lanes"


def loss(view: ClassView, lately: Lately) -> str:
    if view.settings.lossless:
        return "nothing is shed, because it is lossless"
    if view.shed_now < LEAST:
        shed = shed_lately(lately)
        return f"nothing is shed now, but {shed}" if shed else "nothing is shed"
    why = "its load exceeds its capacity"
    if view.figures.load <= view.figures.headroom:
        why = "its queue is too long"
    when = f"was shed in the last {RECENT_S:g} s" if view.figures.shed_now else "is shed now"
    return f"{view.shed_now:.0%} of its input {when}, because {why}"


def shed_lately(lately: Lately) -> str:
    """Return a text about what was dropped in the last minute; an empty text if nothing was dropped."""
    parts = []
    if lately.drop >= LEAST:
        parts.append(f"up to {lately.drop:.0%} of its input was shed")
    if lately.trimmed >= LEAST:
        parts.append(f"up to {lately.trimmed:.0%} of its queue was dropped because it would have been late")
    return f"in the last minute {' and '.join(parts)}" if parts else ""


def late(view: ClassView) -> str:
    """Return a text that names the streams with late rows, largest part first; an empty text if no stream has late rows."""
    shares = {stream: part for stream, part in view.figures.late_now.items() if part >= LEAST}
    if not shares:
        return ""
    stream, *others = sorted(shares, key=lambda name: (-shares[name], name))
    more = f", and rows of {', '.join(others)} were late too" if others else ""
    return (
        f"{shares[stream]:.0%} of the rows of stream {stream} in the last minute of input were late"
        f" (behind its watermark{behind(view, stream)}) and are in no answer{more}; a larger WATERMARK would include them"
    )


def lost_in_queries(view: ClassView) -> str:
    """Return a text that names the queries that lose rows, largest part first; an empty text if no query loses rows."""
    losses = failing(view.failures)
    if not losses:
        return ""
    named = [f"{in_query(loss)} ({loss.rows:,} rows in all)" for loss in losses[:QUERIES_NAMED]]
    more = f", and rows of {len(losses) - len(named)} more queries fail" if len(losses) > len(named) else ""
    return f"in the last minute of input, {', '.join(named)}{more}; failed rows are in no answer, but count as delivered"


def behind(view: ClassView, stream: str) -> str:
    """Return a text with the time that the watermark of a stream is behind its newest row; an empty text for an unknown stream."""
    for schema in map(parse_create_stream, view.settings.streams):
        if schema.name.lower() == stream:
            return f" of {schema.lateness_us / 1e6:g} s"
    return ""


def policy(view: ClassView) -> list[str]:
    """Return texts with the policy and the objective of a class; no texts for the default policy."""
    objective = view.settings.objective
    least = f"the least {WAYS[objective].words}"
    if view.tunes_itself:
        return [f"its operators now run by the policy {view.policy}, which it has chosen for {least}"]
    if objective == "response" and view.policy == WAYS[objective].kind:
        return []
    return [f"its operators run by the policy {view.policy}, and its objective is {least}"]
