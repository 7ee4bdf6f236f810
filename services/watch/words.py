"""How a class fares, in a sentence or two."""

from __future__ import annotations

from configs.objectives import WAYS
from services.cli.class_views import ClassView

# Of a share, or of the input: less is not worth a word.
LEAST = 0.005


def in_words(view: ClassView) -> str:
    if not view.units:
        return "It is being started and has not reported yet."
    if view.asleep:
        return f"It has no input and sleeps; {shares(view)}."
    told = (response(view), worth(view), tardy(view), shares(view), loss(view), *policy(view))
    return "; ".join(filter(None, told)) + "."


def response(view: ClassView) -> str:
    target, p95 = view.settings.delay_target_ms, view.figures.p95_ms
    if not p95:
        return "It has not answered anything yet"
    side = "within" if p95 <= target else "above"
    return f"95% of its answers come within {p95:.3g} ms, {side} its target of {target:.4g} ms"


def worth(view: ClassView) -> str:
    """Nothing where nothing is lost by waiting."""
    figures = view.figures
    if figures.utility_now > 1 - LEAST:
        return ""
    return f"they are worth {figures.utility_now:.0%} of what they could be, {figures.missed_now:.0%} came after their deadline"


def tardy(view: ClassView) -> str:
    """Nothing where windows are in time."""
    figures = view.figures
    if figures.tardy_now < LEAST:
        return ""
    mean_ms = figures.tardiness.get("mean_ms", 0.0)
    return f"{figures.tardy_now:.0%} of its windows' answers are tardy, by {mean_ms:.3g} ms on average so far"


def shares(view: ClassView) -> str:
    moved = view.share - view.original
    if moved > LEAST:
        return f"it has {view.original:.0%} of the lanes of its own and {moved:.0%} borrowed"
    if moved < -LEAST:
        return f"it has {view.share:.0%} of the lanes and lends {-moved:.0%}"
    return f"it has its share of {view.original:.0%} of the lanes"


def loss(view: ClassView) -> str:
    if view.settings.lossless:
        return "nothing is shed, since it is lossless"
    if view.drop < LEAST:
        return "nothing is shed"
    why = "its load is above what it can do"
    if view.figures.load <= view.figures.headroom:
        why = "a queue has to be worked off"
    return f"{view.drop:.0%} of its input is shed, because {why}"


def policy(view: ClassView) -> list[str]:
    """Nothing of the default."""
    objective = view.settings.objective
    least = f"the least {WAYS[objective].words}"
    if view.tunes_itself:
        return [f"its operators run by {view.policy} for now, which it has chosen for {least}"]
    if objective == "response" and view.policy == WAYS[objective].kind:
        return []
    return [f"its operators run by {view.policy}, and its objective is {least}"]
