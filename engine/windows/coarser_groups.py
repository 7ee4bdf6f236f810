"""Combines the groups of one pane into fewer groups, for example all sensors of a region into one group.

Each measure of a new group is combined from the measures of its old groups, in the same way as measures of two panes are
combined. Sketches and standard errors cannot be combined here; `can_combine` says which measures can.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.data.keys import Codes
from engine.windows.panes import ADD, FOLD, Array, Measure, Pane

# Names of the measures that can be combined, besides the lists of all values.
COMBINED = {*ADD, "scaled rows", "scaled count", "scaled sum"}


def can_combine(measure: Measure) -> bool:
    return measure[0] in COMBINED or measure[0] == "values"


def combined_groups(pane: Pane, groups: Codes, codes: Codes) -> Pane:
    """Return a pane in which the old groups with the numbers `groups` are combined into new groups.

    `codes` has the new group of each old group. Each new group from 0 on has at least one old group. Other old groups are left
    out.
    """
    combined = Pane(tuples=pane.tuples, offered=pane.offered)
    order = np.argsort(codes, kind="stable")
    groups, codes = groups[order], codes[order]
    for measure, state in pane.measures.items():
        combined.measures[measure] = folded(measure[0], widened(state, groups), codes)
    new_of = np.full(int(groups.max(initial=-1)) + 1, -1, np.intp)
    new_of[groups] = codes
    for measure, chunks in pane.values.items():
        combined.values[measure] = [regrouped(*chunk, new_of) for chunk in chunks]
    return combined


def widened(state: Array, groups: Codes) -> Array:
    """Return the measure of these groups; the measure's array may end before a group that has no tuple in the pane."""
    assert groups.max(initial=-1) < state.shape[-1], "every measure has room for each group with tuples"
    return state.take(groups, axis=-1)


def folded(name: str, state: Array, codes: Codes) -> Array:
    """Combine a measure of old groups, which are sorted by their new groups `codes`."""
    if not len(codes):
        return state
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    if name != "moments":
        fold: Any = FOLD.get(name, np.add)
        return np.asarray(fold.reduceat(state, starts, axis=-1), state.dtype)
    count, mean, spread = state
    total = np.add.reduceat(count, starts)
    mean_of_all = np.add.reduceat(count * mean, starts) / np.maximum(total, 1)
    apart = count * (mean - mean_of_all[codes]) ** 2
    return np.stack([total, mean_of_all, np.add.reduceat(spread + apart, starts)])


def regrouped(codes: Codes, data: Any, times: Array, new_of: Codes) -> tuple[Codes, Any, Array]:
    """Return the kept values of a pane with new groups, without the values of groups that are left out."""
    places = np.flatnonzero(codes < len(new_of))
    places = places[new_of[codes[places]] >= 0]
    taken = data.take(pa.array(places)) if isinstance(data, pa.Array) else data.take(places)
    return new_of[codes[places]], taken, times.take(places)
