"""Schedule of the windows over one pane store: the ends of windows with SLIDE AT MOST, and shared scans.

The schedule follows Golab, Bijay, Özsu (schedule synchronisation, §4). Their synopsis is a pane store in Weir, and their update is a
pane that event time has passed. A sub-group has all windows with the same SLIDE. It slides by its *period*, which is at most its
bound; `scheduler.windows` chooses the periods by the number of panes that scans read. Ends are multiples of the period from
the epoch, so sub-groups have common ends wherever their periods have common multiples. Windows with an exact SLIDE take part.
A scan begins at the youngest pane and stores on its way the result of each shorter window. Unless the schedule is `none`,
windows with the same end are answered by one scan.

One difference from the paper: windows are answered also at late ends. The panes still exist, so a late result is the result of
its own end, and the bound holds in event time under any load. In overload, event time passes several ends in one step. Late
sharing then lets sub-groups slide by their whole bounds, and lets them share the next common end if their own end would come
earlier.

Properties:
1. The distance between two consecutive ends of a window is at most SLIDE, except where no window between them has a tuple.
2. The answers depend on the windows, the settings, and how far event time was at each step; without late sharing, not on
   the steps. They do not depend on the clock: costs are numbers of panes, not measurements.
3. Sharing a scan changes no digit of an answer: panes are always combined one by one, from the youngest to the oldest. So a
   longer window continues from exactly the result that a shorter window has alone.
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

# Costs of a scan per pane, per scan, and per answer; the unit is the cost of combining one pane, about 7 µs.
COSTS = ScanCosts(interval=1.0, call=1.0, answer=4.0)


class WindowReader(Protocol):
    """Window that reads the panes; its range and slide are numbers of panes."""

    @property
    def window(self) -> int: ...

    @property
    def slide(self) -> int: ...

    @property
    def at_most(self) -> bool: ...

    @property
    def measures(self) -> Collection[Measure]: ...

    def is_due(self, end: int) -> bool:
        """Return True if the window that ends at pane number `end` still has to be answered."""
        ...


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """Past for which panes hold some measures of every tuple, in units of event time."""

    length: int
    """Length of the longest window that needs these measures."""
    since: int
    """First event time that the panes hold completely."""


@dataclass(slots=True)
class WindowProgress:
    """Progress of a window with SLIDE AT MOST, in panes."""

    reader: WindowReader
    last: int | None = None
    """Last settled end, or the first pane with tuples after it; None before the first event time."""
    ends: list[int] = field(default_factory=list)
    """Ends that are settled but not answered yet; none is later than `last`."""


class WindowSchedule:
    """Schedule that decides when the windows over one pane store are answered."""

    def __init__(self, store: PaneStore, settings: WindowSettings) -> None:
        self._store, self._settings = store, settings
        self._readers: dict[str, WindowReader] = {}
        self._flexible: dict[str, WindowProgress] = {}
        # Actual slide of the windows with each value of SLIDE AT MOST, in panes; None after windows were added or removed.
        self._periods: Mapping[int, int] | None = None
        self._reached: int | None = None
        self._scans = Scans(store)

    def set(self, settings: WindowSettings) -> None:
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
        """Discard the chosen periods, so that periods and window ends are chosen again even if event time has not advanced."""
        self._periods = self._reached = None

    def period(self, name: str) -> int:
        """Return the number of panes by which a window slides."""
        return self._period(self._readers[name])

    def next_end(self, name: str) -> int | None:
        """Return the first end of the window that is not answered yet; None before the first event time."""
        reader = self._flexible[name]
        if reader.ends:
            return reader.ends[0]
        return None if reader.last is None else self._following(reader)

    def is_due(self, name: str, end: int) -> bool:
        """Return True if the schedule has chosen this end for the window, and the window has not been answered at this end yet."""
        return end in self._flexible[name].ends

    def settled_upto(self, name: str) -> int | None:
        """Return the pane up to which all ends of the window are answered; None before the first event time."""
        reader = self._flexible[name]
        return reader.ends[0] - 1 if reader.ends else reader.last

    def start_after(self, name: str, pane: int) -> None:
        """Start a window after this pane, so that the window's first end is after the pane."""
        self._flexible[name].last = pane

    def kept(self, measures: Iterable[Measure]) -> KeptSpan | None:
        """Return the past for which the panes hold these measures; None if no window needs one of the measures."""
        lengths, times = [], []
        for measure in measures:
            readers = {name: reader for name, reader in self._readers.items() if measure in reader.measures}
            if not readers:
                return None
            lengths.append(max(reader.window for reader in readers.values()) * self._store.pane)
            times.append(min(map(self._store.complete_from, readers)))
        return KeptSpan(min(lengths), max(times))

    def ends(self, name: str, reached: int) -> Iterator[int]:
        """Yield the unanswered ends of a window up to `reached`, the pane that event time has reached."""
        self._settle(reached)
        reader = self._flexible[name]
        # Ends beyond `reached` may have been chosen already, together with ends of another window; such ends wait.
        while reader.ends and reader.ends[0] <= reached:
            yield reader.ends[0]
            del reader.ends[0]

    def combined(self, end: int, reader: WindowReader, reached: int) -> Pane:
        """Return the combined pane of the reader's window that ends at `end`, from a new scan or from an earlier scan."""
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

    def _settle(self, reached: int) -> None:
        """Determine the ends of all windows with SLIDE AT MOST, up to the pane that event time has reached."""
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
        """Choose ends for windows that are several ends late: few ends, and if possible ends that several windows have in common."""
        pending = self._settings.late == "late-pending"
        while True:
            due = {name: self._due(reader, reached, numbers) for name, reader in self._flexible.items()}
            late = [name for name, end in due.items() if end is not None and end < reached]
            if not late:
                return
            matching = [name for name, end in due.items() if end is not None and (pending or end < reached)]
            latest = {name: (self._flexible[name].last or 0) + self._slide(name) for name in matching}
            end = min(min(latest.values()), reached)
            # The next moment at which these windows may end together is at most the smallest of their slides after `end`.
            before = end + min(self._slide(name) for name in matching)
            for name in matching:
                reader = self._flexible[name]
                if latest[name] < before and reader.last is not None and reader.last < end:
                    reader.ends.append(end)
                    reader.last = end

    def _slide(self, name: str) -> int:
        return self._flexible[name].reader.slide

    def _due(self, one: WindowProgress, reached: int, numbers: Sequence[int]) -> int | None:
        """Return the next end if event time has reached it, otherwise None; skip a stretch without tuples at once."""
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

    def _scan(self, end: int, due: Iterable[WindowReader]) -> dict[int, Pane]:
        """Scan the panes from the youngest on, and return the combined pane for each window length, beginning with the shortest."""
        measures: dict[int, set[Measure]] = {}
        for reader in due:
            measures.setdefault(reader.window, set()).update(reader.measures)
        windows = sorted(measures)
        for longer, shorter in pairwise(reversed(windows)):
            measures[shorter] |= measures[longer]
        panes: dict[int, Pane] = {}
        before, start = Pane(), end
        for window in windows:
            # Older panes are combined only for longer windows, and so only with the measures that longer windows need.
            before = merged_panes([before, *self._store.youngest(end - window, start)], measures[window])
            panes[window], start = before, end - window
        return panes


class Scans:
    """Cache of panes that a shared scan has combined, for windows that are answered after the scan at the same event time.

    The cache holds only what fits into the memory limit of the class.
    """

    def __init__(self, store: PaneStore) -> None:
        self._store = store
        self._left: dict[tuple[int, int], tuple[Pane, int]] = {}
        self._bytes = 0
        self._recodings = 0

    def take(self, end: int, window: int) -> Pane | None:
        if self._recodings != self._store.recodings:  # New group numbers make all cached panes invalid
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
    """Return, for each value of SLIDE AT MOST, the actual slide of its windows; both are numbers of panes."""
    windows: dict[tuple[int, bool], list[int]] = {}
    for reader in readers:
        windows.setdefault((reader.slide, reader.at_most), []).append(reader.window)
    groups = [
        SubGroup(slide, max(some), len(some), at_most) for (slide, at_most), some in sorted(windows.items())
    ]
    chosen = PERIODS[settings.schedule](groups, COSTS).periods
    return {reader.slide: period for reader, period in zip(groups, chosen, strict=True) if reader.at_most}
