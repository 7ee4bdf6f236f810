"""Windows over one pane store: at which ends those with SLIDE AT MOST are answered, and which windows one scan answers.

After Golab, Bijay, Özsu (schedule synchronisation, §4). A synopsis is a pane store here, and its update a pane that
event time has passed; a sub-group is all windows with the same SLIDE. A sub-group slides by its *period*, which is its bound
or shorter, as `scheduler.windows` finds it by the intervals that scans read. Ends are multiples of the period from the
epoch, so that sub-groups meet wherever their periods do, windows with an exact SLIDE among them. A scan begins at the youngest
pane and leaves behind on its way what each shorter window needs; windows that end together are answered by one, be their SLIDEs
exact or not, unless the schedule is `none`.

What departs from the paper: no end is given up for being late. The panes are still there, so a result that comes late is
that of its own end, and the bound holds in event time whatever the load. In overload (event time has passed several ends in
one step) late sharing lets sub-groups slide by their whole bounds, and those whose next end would come before the next
common one share it.

1. From one end of a window to the next there is at most its SLIDE, but where no tuple is in any window between.
2. What is answered is a function of the windows there are, the settings, and how far event time had come at each step;
   without late sharing not of the steps. The clock has no part in it: costs are those of the scans, not measured.
3. Whether a scan was shared changes no digit: panes are always combined one by one, from the youngest to the oldest, so what
   a longer window adds to comes to the same as what a shorter one would have had by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from configs.classes.window_settings import WindowSettings
from engine.windows.panes import Measure, Pane, PaneStore, merged_panes
from scheduler.windows import ScanCosts
from scheduler.windows.scan_model import SubGroup
from scheduler.windows.tasks import PERIODS

# In panes that are combined, some 7 µs each: what a scan takes to begin with, and an answer to be made and passed on.
COSTS = ScanCosts(interval=1.0, call=1.0, answer=4.0)


class WindowReader(Protocol):
    """A window over the panes; lengths are numbers of panes."""

    @property
    def window(self) -> int: ...

    @property
    def slide(self) -> int: ...

    @property
    def at_most(self) -> bool: ...

    @property
    def measures(self) -> Collection[Measure]: ...

    def is_due(self, end: int) -> bool:
        """Whether it is still to be answered at this end."""
        ...


@dataclass(slots=True)
class WindowProgress:
    """How far a window that slides by at most so much has come, in panes."""

    reader: WindowReader
    last: int | None = None
    """Its last end, or the start of the first tuple after it; None before there was event time."""
    ends: list[int] = field(default_factory=list)
    """Ends that have been settled and not answered yet; `last` is past them."""


class WindowSchedule:
    """When the windows over one store are answered."""

    def __init__(self, store: PaneStore, settings: WindowSettings) -> None:
        self._store, self._settings = store, settings
        self._readers: dict[str, WindowReader] = {}
        self._flexible: dict[str, WindowProgress] = {}
        self._periods: Mapping[int, int] | None = None  # by bound; None if windows have come or gone
        self._reached: int | None = None
        self._scans = Scans(store)

    @property
    def settings(self) -> WindowSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: WindowSettings) -> None:
        self._settings = settings
        self._change()

    def join(self, name: str, reader: WindowReader) -> None:
        self._readers[name] = reader
        if reader.at_most:
            self._flexible[name] = WindowProgress(reader)
        self._change()

    def leave(self, name: str) -> None:
        self._readers.pop(name, None)
        self._flexible.pop(name, None)
        self._change()

    def _change(self) -> None:
        """Periods are others, and ends are to be settled anew, also where event time has not gone on."""
        self._periods = self._reached = None

    def period(self, name: str) -> int:
        """How many panes a window slides by."""
        return self._period(self._readers[name])

    def next_end(self, name: str) -> int | None:
        """The first end that is not answered yet; None before there was event time."""
        reader = self._flexible[name]
        if reader.ends:
            return reader.ends[0]
        return None if reader.last is None else self._following(reader)

    def is_due(self, name: str, end: int) -> bool:
        """Whether the window is still to be answered at this end."""
        return end in self._flexible[name].ends

    def settled_upto(self, name: str) -> int | None:
        """No end up to this one will be asked for again."""
        reader = self._flexible[name]
        return reader.ends[0] - 1 if reader.ends else reader.last

    def start_after(self, name: str, pane: int) -> None:
        """The first end is a later one than this."""
        self._flexible[name].last = pane

    def ends(self, name: str, reached: int) -> Iterator[int]:
        """The ends of a window that event time has passed, up to the pane that begins at `reached`."""
        self._settle(reached)
        reader = self._flexible[name]
        # Another window may have been told of more already, and ends have been settled as far as that.
        while reader.ends and reader.ends[0] <= reached:
            yield reader.ends[0]
            del reader.ends[0]

    def combined(self, end: int, reader: WindowReader, reached: int) -> Pane:
        """What a window that ends here is made of, combined by its own scan or by one before it."""
        self._settle(reached)
        window = reader.window
        left = self._scans.take(end, window)
        if left is not None:
            return left
        due = [reader]
        if self._settings.schedule != "none" and len(self._readers) > 1:
            due = [item for item in self._readers.values() if item.is_due(end)]
        if len(due) == 1:
            panes = self._store.youngest(end - window, end)
            return panes[0] if len(panes) == 1 else merged_panes(panes, reader.measures)
        answers = self._scan(end, due)
        others = Counter(item.window for item in due if item is not reader)
        for item, readers in others.items():
            self._scans.leave(end, item, answers[item], readers)
        return answers[window]

    def snapshot(self, name: str) -> tuple[int | None, tuple[int, ...]]:
        reader = self._flexible[name]
        return reader.last, tuple(reader.ends)

    def restore(self, name: str, state: tuple[int | None, tuple[int, ...]]) -> None:
        reader = self._flexible[name]
        reader.last, reader.ends = state[0], list(state[1])
        self._reached = None

    # -- ends -----------------------------------------------------------------------------------------

    def _settle(self, reached: int) -> None:
        """Which ends come of event time having come so far."""
        if self._reached is not None and reached <= self._reached:
            return
        self._reached = reached
        self._scans.clear()
        if not self._flexible:
            return
        numbers = sorted(self._store.panes)
        for reader in self._flexible.values():
            if reader.last is None:
                reader.last = min(numbers[0], reached) if numbers else reached
        if self._settings.late != "off":
            self._settle_late(reached, numbers)
        for reader in self._flexible.values():
            while (due := self._due(reader, reached, numbers)) is not None:
                reader.ends.append(due)
                reader.last = due

    def _settle_late(self, reached: int, numbers: Sequence[int]) -> None:
        """Ends of the sub-groups that are late: as few as their bounds allow, and common ones."""
        pending = self._settings.late == "late-pending"
        while True:
            due = {name: self._due(reader, reached, numbers) for name, reader in self._flexible.items()}
            late = [name for name, end in due.items() if end is not None and end < reached]
            if not late:
                return
            matching = [name for name, end in due.items() if end is not None and (pending or end < reached)]
            latest = {name: (self._flexible[name].last or 0) + self._slide(name) for name in matching}
            end = min(min(latest.values()), reached)
            # The next common end is no further than the shortest bound.
            before = end + min(self._slide(name) for name in matching)
            for name in matching:
                reader = self._flexible[name]
                if latest[name] < before and reader.last is not None and reader.last < end:
                    reader.ends.append(end)
                    reader.last = end

    def _slide(self, name: str) -> int:
        return self._flexible[name].reader.slide

    def _due(self, one: WindowProgress, reached: int, numbers: Sequence[int]) -> int | None:
        """The next end, if event time has come as far; a stretch without tuples is passed over in one step."""
        due = self._following(one)
        if due > reached:
            return None
        place = bisect_left(numbers, due - one.reader.window)
        if place == len(numbers) or numbers[place] >= due:
            one.last = min(numbers[place], reached) if place < len(numbers) else reached
            due = self._following(one)
        return due if due <= reached else None

    def _following(self, one: WindowProgress) -> int:
        assert one.last is not None
        period = self._period(one.reader)
        return (one.last // period + 1) * period

    def _period(self, reader: WindowReader) -> int:
        if self._periods is None:
            self._periods = periods_of(self._readers.values(), self._settings)
        return self._periods[reader.slide] if reader.at_most else reader.slide

    # -- scans ----------------------------------------------------------------------------------------

    def _scan(self, end: int, due: Iterable[WindowReader]) -> dict[int, Pane]:
        """From the youngest pane on, what each of the windows is made of, the shortest first."""
        measures: dict[int, set[Measure]] = {}
        for reader in due:
            measures.setdefault(reader.window, set()).update(reader.measures)
        windows = sorted(measures)
        for longer, shorter in pairwise(reversed(windows)):
            measures[shorter] |= measures[longer]
        panes: dict[int, Pane] = {}
        before, start = Pane(), end
        for window in windows:
            # Of what only shorter windows are made of, nothing is combined any more.
            before = merged_panes([before, *self._store.youngest(end - window, start)], measures[window])
            panes[window], start = before, end - window
        return panes


class Scans:
    """What scans have left for windows that are answered after them, until event time goes on; as far as there is room."""

    def __init__(self, store: PaneStore) -> None:
        self._store = store
        self._left: dict[tuple[int, int], tuple[Pane, int]] = {}
        self._bytes = 0
        self._recodings = 0

    def take(self, end: int, window: int) -> Pane | None:
        if self._recodings != self._store.recodings:  # by other codes: the panes are still there
            self.clear()
        scanned = self._left.pop((end, window), None)
        if scanned is None:
            return None
        pane, readers = scanned
        if readers > 1:
            self._left[end, window] = pane, readers - 1
        else:
            self._hold(self._bytes - pane.held)
        return pane

    def leave(self, end: int, window: int, pane: Pane, readers: int) -> None:
        if (end, window) not in self._left and pane.held <= self._store.holding.room:
            self._left[end, window] = pane, readers
            self._recodings = self._store.recodings
            self._hold(self._bytes + pane.held)

    def clear(self) -> None:
        if self._left:
            self._left.clear()
            self._hold(0)

    def _hold(self, size: int) -> None:
        self._bytes = size
        self._store.keep_beside(size)


def periods_of(readers: Collection[WindowReader], settings: WindowSettings) -> Mapping[int, int]:
    """By bound, the period of the windows that slide by at most so much."""
    windows: dict[tuple[int, bool], list[int]] = {}
    for reader in readers:
        windows.setdefault((reader.slide, reader.at_most), []).append(reader.window)
    groups = [
        SubGroup(slide, max(some), len(some), at_most) for (slide, at_most), some in sorted(windows.items())
    ]
    chosen = PERIODS[settings.schedule](groups, COSTS).periods
    return {reader.slide: period for reader, period in zip(groups, chosen, strict=True) if reader.at_most}
