"""Join with the last row by key of a stream: a table that the stream keeps current.

    in: tuples that look up                 out: each with the last row of equal key; outer: also those without one
    in: rows of the stream                  out: nothing; the row replaces that of its key

Two operators over one `LastRows`. What a train finds is what was taken in before it: sources take trains in the order of
arrival, and what follows from one is done before the next is taken. Within trains there is no order between two streams. So
no stream looks itself up. A row stays until another of its key comes, so state is bounded by the keys; rows for which there is
no room are refused and counted.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.expressions import Condition, Failures
from engine.keys import KeyIndex
from engine.limits import Holding
from engine.operators.join import key_mask, key_types, without_mask, without_null_keys
from engine.operators.protocol import Stateless
from engine.operators.stored import ROOM_MIN, Column, Fixed, Texts
from engine.operators.table import nulls
from engine.schema import Kind, Schema
from engine.train import Places, Train, Values, concatenated, empty_values, taken

NOWHERE = -1


class LastRows:
    """The last row by key."""

    def __init__(self, schema: Schema, keys: Sequence[int]) -> None:
        self._schema, self._keys = schema, tuple(keys)
        self.index = KeyIndex(key_types(schema, keys))
        self._columns: list[Column] = []
        self._room = self._end = 0
        self._place: Places = np.full(0, NOWHERE, np.intp)
        """Of each code's row; NOWHERE of keys that have none."""
        self._width = 1 + sum(
            1 + one.type.numpy.itemsize for one in schema.fields if one.type.kind is not Kind.STRING
        )

    @property
    def bytes(self) -> int:
        texts = sum(one.bytes for one in self._columns if isinstance(one, Texts))
        return self._width * self._room + self._place.nbytes + texts

    def add(self, train: Train, holding: Holding) -> None:
        """Rows of one train; of several with one key the last counts."""
        train = without_null_keys(train, self._keys)
        codes = holding.codes(
            self.index, [without_mask(train.columns[key]) for key in self._keys], self._width
        )
        if self.index.refused:
            fitting = np.flatnonzero(codes >= 0)
            holding.refuse_keys(len(codes) - len(fitting))
            train, codes = train.take(fitting), codes.take(fitting)
        # What is written takes room until the rows that it replaces are left behind, twice as much while they move.
        if not len(train) or len(admitted := holding.admitted(train, 2 * self._width)) == 0:
            return
        train, codes = admitted, codes[: len(admitted)]
        if len(self.index) > len(self._place):
            more = np.full(max(ROOM_MIN, 2 * len(self.index)) - len(self._place), NOWHERE, np.intp)
            self._place = np.concatenate([self._place, more])
        if self._end + len(train) > self._room:
            self._move(len(train))
        for column, values in zip(self._columns, train.columns, strict=True):
            column.write(values, self._end)
        self._place[codes] = np.arange(self._end, self._end + len(train))
        self._end += len(train)
        holding.set_state(self.bytes)

    def find(self, keys: Sequence[Values]) -> Places:
        """Of each tuple the place of its row, or NOWHERE."""
        codes = self.index.known(keys)
        found = np.full(len(codes), NOWHERE, np.intp)
        known = np.flatnonzero(codes < min(len(self.index), len(self._place)))
        found[known] = self._place.take(codes.take(known))
        return found

    def take(self, places: Places) -> list[Values]:
        if not self._columns:
            return [empty_values(field) for field in self._schema.fields]
        return [column.take(places) for column in self._columns]

    def _move(self, more: int) -> None:
        """Rows that have been replaced are left behind."""
        if not self._columns:
            self._room = max(ROOM_MIN, 2 * more)
            self._columns = [
                Texts(one.type) if one.type.kind is Kind.STRING else Fixed(one.type, self._room)
                for one in self._schema.fields
            ]
            return
        held = np.flatnonzero(self._place != NOWHERE)
        order = held[np.argsort(self._place[held])]
        self._room = max(ROOM_MIN, 2 * len(order) + 2 * more)
        for column in self._columns:
            column.move(self._place[order], self._room)
        self._place[order] = np.arange(len(order))
        self._end = len(order)


class LastRowsOperator:
    """The stream's side: keeps, and tells nothing."""

    def __init__(self, rows: LastRows) -> None:
        self.rows, self.holding = rows, Holding()

    def process(self, train: Train) -> Train | None:
        if len(train):
            self.rows.add(train, self.holding)
        return None

    def wants(self, time: int) -> bool:
        return False

    def snapshot(self) -> Any:
        return vars(self.rows)

    def restore(self, state: Any) -> None:
        vars(self.rows).update(copy.deepcopy(state))
        self.holding.set_keys(len(self.rows.index), self.rows.index.bytes)
        self.holding.set_state(self.rows.bytes)


class LookUpOperator(Stateless):
    """The side that looks up; its event time goes on."""

    def __init__(
        self,
        rows: LastRows,
        rows_schema: Schema,
        keys: Sequence[int],
        residual: Condition | None,
        outer: bool,
        schema: Schema,
    ) -> None:
        self._rows, self._keys, self._residual, self._outer = rows, tuple(keys), residual, outer
        self._schema = schema
        self._nulls = [empty_values(field) for field in rows_schema.fields]
        self.failed: Counter[str] = Counter()

    def process(self, train: Train) -> Train | None:
        if not len(train):
            return train
        present = key_mask(train, self._keys)
        mine = np.arange(len(train)) if present is None else np.flatnonzero(present)
        probing = train.take(mine)
        found = self._rows.find([without_mask(probing.columns[key]) for key in self._keys])
        known = np.flatnonzero(found != NOWHERE)
        mine = mine.take(known)
        columns = [one.take(known) for one in probing.columns] + self._rows.take(found.take(known))
        pairs = Train(tuple(columns), taken(train.arrival, mine))
        if self._residual is not None:
            failures = Failures()
            holds = np.flatnonzero(self._residual(pairs, failures))
            self.failed.update(failures.counts())
            pairs, mine = pairs.take(holds), mine[holds]
        pairs.kept = train.kept
        if self._outer:
            pairs = self._with_others(train, mine, pairs)
        pairs.watermark, pairs.causes = train.watermark, train.causes
        return pairs

    def _with_others(self, train: Train, met: Places, pairs: Train) -> Train:
        """The pairs, and after them the tuples that have met nobody."""
        alone = np.ones(len(train), bool)
        alone[met] = False
        rest = train.take(np.flatnonzero(alone))
        padded = Train((*rest.columns, *(nulls(one, len(rest)) for one in self._nulls)), rest.arrival)
        return concatenated([pairs, padded], self._schema) if len(rest) else pairs
