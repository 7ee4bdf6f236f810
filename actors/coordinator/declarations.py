"""The declared classes and streams, checked against each other.

A refused change has no effect. A change of several classes is made for all of these classes or for no class.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from configs.classes.live_class import LiveClass
from configs.errors import InvalidInput, UnknownName, WeirError, nearest
from engine.class_.admission import CheckedClass, check_change, check_together, checked, runnable
from engine.data.schema import StreamSchema
from engine.sql import parse_create_stream

# Maximum number of units. Fewer units already overload a coordinator: each unit has a log, a file descriptor and saved state.
UNITS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class DeclaredStream:
    """A stream that was declared separately from classes."""

    sql: str
    schema: StreamSchema


@dataclass
class SystemDeclarations:
    classes: dict[str, CheckedClass] = field(init=False, default_factory=dict)
    streams: dict[str, DeclaredStream] = field(init=False, default_factory=dict)
    """Streams that exist whether or not a class reads them, by name in lower case."""

    @property
    def models(self) -> list[LiveClass]:
        return [class_.declared for class_ in self.classes.values()]

    def checked_class(self, name: str) -> CheckedClass:
        if name not in self.classes:
            raise UnknownName(
                "the running system has no class of this name", "class", name, nearest(name, self.classes)
            )
        return self.classes[name]

    def apply(self, classes: Sequence[LiveClass]) -> None:
        """Add classes, or replace existing classes that have the same names."""
        names = Counter(class_.name for class_ in classes)
        for name, count in names.items():
            if count > 1:
                raise InvalidInput(
                    "several classes have the same name",
                    "classes.name",
                    name,
                    "rename all but one of these classes",
                )
        with planning():
            changed = [checked(class_) for class_ in classes]
        for class_ in changed:
            if class_.name in self.classes:
                check_change(self.classes[class_.name], class_)
        self._declare(self.classes | {class_.name: class_ for class_ in changed})

    def remove_class(self, name: str) -> None:
        self.checked_class(name)
        self._declare({other: class_ for other, class_ in self.classes.items() if other != name})

    def add_query(self, class_name: str, name: str, sql: str) -> None:
        with planning():
            changed = self.checked_class(class_name).with_query(name, sql)
        self._declare(self.classes | {class_name: changed})

    def remove_query(self, class_name: str, name: str) -> None:
        changed = self.checked_class(class_name).without_query(name)
        self._declare(self.classes | {class_name: changed})

    def declare_stream(self, sql: str) -> bool:
        """Declare a stream; return False if the same stream is declared already."""
        with planning():
            schema = parse_create_stream(sql)
        name = schema.name.lower()
        for class_ in self.classes.values():
            check_same(class_.streams.get(name), schema)
        if name in self.streams:
            check_same(self.streams[name].schema, schema)
            return False
        self.streams = {**self.streams, name: DeclaredStream(sql, schema)}
        return True

    def drop_stream(self, name: str) -> None:
        if name.lower() not in self.streams:
            raise UnknownName(
                "the running system has no stream of this name", "stream", name, nearest(name, self.streams)
            )
        self.streams = {other: stream for other, stream in self.streams.items() if other != name.lower()}

    def restore(self, classes: Sequence[Mapping[str, Any]], streams: Sequence[str]) -> None:
        """Continue with saved classes and streams. Queries that this version of Weir cannot plan are left out."""
        runnable_classes = [runnable(LiveClass.model_validate(saved))[0] for saved in classes]
        self.classes = {class_.name: class_ for class_ in runnable_classes}
        self.streams = {}
        for sql in streams:
            schema = parse_create_stream(sql)
            self.streams[schema.name.lower()] = DeclaredStream(sql, schema)

    def _declare(self, classes: dict[str, CheckedClass]) -> None:
        check_together(list(classes.values()))
        for name, stream in self.streams.items():
            for class_ in classes.values():
                check_same(class_.streams.get(name), stream.schema)
        units = sum(class_.declared.shards for class_ in classes.values())
        if units > UNITS_MAX:
            raise InvalidInput(
                f"all classes together have more than {UNITS_MAX:,} shards",
                "shards",
                units,
                "declare fewer shards",
            )
        self.classes = classes


def check_same(schema: StreamSchema | None, other: StreamSchema) -> None:
    if schema is not None and schema != other:
        hint = "remove the declaration and the classes that read the stream first, or choose another name"
        raise InvalidInput(
            "the stream is already declared with other columns or another event time",
            "stream",
            other.name,
            hint,
        )


@contextmanager
def planning() -> Iterator[None]:
    """Turn unexpected errors of the planner into InvalidInput, so that they do not end the coordinator."""
    try:
        yield
    except WeirError:
        raise
    except Exception as problem:
        traceback.print_exc()
        raise InvalidInput(
            "planning a query failed with an unexpected error",
            value=repr(problem),
            hint="report this error, which is a bug in Weir, and simplify the query",
        ) from problem
