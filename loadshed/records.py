"""Encoding of the events and commands of decision cores as JSON lines, from which the exact values can be restored.

A log begins with a header line. Each further line has one decision: its time, the event, and the commands that the core returned.

    header      {"weir_events": version, "core": kind, "name": …, "clock": …, "settings": {argument: value}}
    decision    [now, event, [command, …]]
    cut         {"cut": reason why the log ends early}

An event or a command is [type, field, …]. The declared types of the fields determine how values are read, so values have no tags:

    float                     itself; "inf", "-inf", "nan"
    enumeration               its value
    dataclass, tuple          [field, …], [item, …]
    mapping                   [[key, value], …], because the order of shares determines the order of turns
    settings                  an object

`KINDS` lists the kinds of cores; the types of their events and commands are taken from unions in their modules. A type that
cannot be encoded raises an error when this module is imported.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from configs.base import Settings
from loadshed.manager import LoadCommand, LoadEvent, LoadManager
from scheduler.capacity.core import CapacityCommand, CapacityCore, CapacityEvent
from scheduler.tuning import TuningCommand, TuningCore, TuningEvent
from scheduler.turns.round_robin import Grant, TurnEvent, TurnRoundRobin

VERSION = 1
# Fields of cores that only explain decisions to users and do not influence any decision.
FOR_PEOPLE = {"explanations"}

CoreName = Literal["turns", "load", "capacity", "tuning"]


class NotARecord(ValueError):
    """Error for a value that does not occur in a record of this version."""


class Core(Protocol):
    """Decision core that can be recorded."""

    @property
    def handle(self) -> Callable[[Any, float], tuple[Any, ...]]: ...


@runtime_checkable
class Restorable(Protocol):
    """Core with a state that can be saved as JSON values and restored."""

    def state(self) -> dict[str, Any]: ...

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self: ...


class Codec(NamedTuple):
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class Header(NamedTuple):
    """First line of a log: the core and the settings it was created from."""

    core: CoreName
    name: str
    clock: str
    """Name of the clock; only times of the same clock can be compared."""
    settings: Mapping[str, Any]


@cache
def codec_of(kind: Any) -> Codec:
    """Return the encoder and decoder for values of a type; raise TypeError for an unsupported type."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is float:
        return Codec(_float, _float_back)
    if kind in (bool, int, str, NoneType):
        return Codec(_same if kind is NoneType else kind, _exactly(kind))
    if origin is Literal:
        return Codec(_same, _one_of(args))
    if origin in (Union, UnionType):
        return _optional(kind, args)
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return _items(codec_of(args[0]), tuple)
    if origin is tuple:
        return _fields(tuple, [codec_of(arg) for arg in args], len(args), _same)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(codec_of(args[0]), codec_of(args[1]))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _items(codec_of(args[0]), tuple)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Codec(lambda value: value.value, _call(kind))
    if isinstance(kind, type) and issubclass(kind, Settings):
        return Codec(lambda value: value.model_dump(mode="json"), _call(kind.model_validate))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    raise TypeError(f"values of type {kind} cannot be written to an event log")


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else repr(number)


def _float_back(value: Any) -> float:
    if type(value) is float:
        return value
    try:
        if type(value) is int or value in ("inf", "-inf", "nan"):
            return float(value)
    except OverflowError:
        pass
    raise NotARecord(f"{value!r} is not a number")


def _exactly(kind: type) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise NotARecord(f"{value!r} is not of type {kind.__name__}")
        return value

    return decode


def _one_of(known: tuple[Any, ...]) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if value not in known:
            raise NotARecord(f"{value!r} is unknown; expected one of {known}")
        return value

    return decode


def _call(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decoder that calls a constructor, and raises NotARecord if the constructor raises ValueError."""

    def decode(value: Any) -> Any:
        try:
            return make(value)
        except ValueError as problem:
            raise NotARecord(str(problem)) from None

    return decode


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise NotARecord(f"{value!r} is not a list")
    return value


def _optional(kind: Any, args: tuple[Any, ...]) -> Codec:
    inner = [arg for arg in args if arg is not NoneType]
    if len(inner) != 1 or len(args) != 2:
        raise TypeError(
            f"values of type {kind} cannot be written to an event log: the record would not show which type of the union a value has"
        )
    encode, decode = codec_of(inner[0])
    return Codec(
        lambda value: None if value is None else encode(value),
        lambda value: None if value is None else decode(value),
    )


def _items(item: Codec, make: Callable[[Any], Any]) -> Codec:
    encode, decode = item
    return Codec(
        lambda value: [encode(item) for item in value],
        lambda value: make([decode(item) for item in _list(value)]),
    )


def _mapping(key: Codec, item: Codec) -> Codec:
    pairs = _items(_fields(tuple, [key, item], 2, _same), list)

    def decode(value: Any) -> dict[Any, Any]:
        read = pairs.decode(value)
        result = dict(read)
        if len(result) != len(read):
            raise NotARecord("a mapping in the record contains the same key twice")
        return result

    return Codec(lambda value: pairs.encode(value.items()), decode)


def _dataclass(kind: type[Any]) -> Codec:
    hints, fields = get_type_hints(kind), [field for field in dataclasses.fields(kind) if field.init]
    names = [field.name for field in fields]
    # Fields with defaults may be missing at the end of a record: older records do not have fields that were added later.
    least = sum(
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        for field in fields
    )
    return _fields(
        lambda values: kind(*values),
        [codec_of(hints[name]) for name in names],
        least,
        lambda value: [getattr(value, name) for name in names],
    )


def _fields(
    make: Callable[[Any], Any], codecs: Sequence[Codec], least: int, values_of: Callable[[Any], Sequence[Any]]
) -> Codec:
    encoders, decoders = [codec.encode for codec in codecs], [codec.decode for codec in codecs]

    def encode(value: Any) -> list[Any]:
        return [encode(one) for encode, one in zip(encoders, values_of(value), strict=True)]

    def decode(value: Any) -> Any:
        if not least <= len(_list(value)) <= len(decoders):
            raise NotARecord(f"the record has {len(value)} values; expected {len(decoders)}")
        return make([decode(one) for decode, one in zip(decoders, value, strict=False)])

    return Codec(encode, decode)


class Tagged:
    """Codec for values of several types, each encoded with the name of its type first."""

    def __init__(self, union: Any) -> None:
        kinds = get_args(union) or (union,)
        self._encoders = {kind: (kind.__name__, codec_of(kind).encode) for kind in kinds}
        self._decoders = {kind.__name__: codec_of(kind).decode for kind in kinds}

    def encode(self, value: Any) -> list[Any]:
        name, encode = self._encoders[type(value)]
        return [name, *encode(value)]

    def decode(self, value: Any) -> Any:
        if type(value) is not list or not value or type(value[0]) is not str:
            raise NotARecord(f"{value!r} is not an event or command")
        decode = self._decoders.get(value[0])
        if decode is None:
            raise NotARecord(
                f"the line names an unknown event or command {value[0]!r}; expected one of {', '.join(self._decoders)}"
            )
        return decode(value[1:])


class CoreKind:
    """Kind of core: its constructor, and the types of its events and commands."""

    def __init__(self, make: type[Any], events: Any, commands: Any, carried: Sequence[str] = ()) -> None:
        """Create a kind of core. `carried` names additional attributes to record, because they may be set before the first decision."""
        self.make, self._carried = make, carried
        self.event, self.command = Tagged(events), Tagged(commands)

    def settings_of(self, core: Core) -> dict[str, Any]:
        """Return the settings that recreate the core: its state if it is Restorable, otherwise its constructor arguments."""
        if isinstance(core, Restorable):
            return core.state()
        codecs = self._codecs([*self._arguments(), *self._carried])
        # An argument with the value None is left out, so that adding an optional argument does not change existing records.
        values = {name: (codec, getattr(core, name)) for name, codec in codecs.items()}
        return {name: codec.encode(value) for name, (codec, value) in values.items() if value is not None}

    def core_of(self, settings: Mapping[str, Any]) -> Core:
        try:
            core: Core = self._core_of(settings)
        except (KeyError, TypeError, ValueError) as problem:
            raise NotARecord(
                f"a {self.make.__name__} cannot be created from the header's settings: {problem}"
            ) from None
        return core

    def _core_of(self, settings: Mapping[str, Any]) -> Any:
        if issubclass(self.make, Restorable):
            return self.make.restored(settings)
        codecs = self._codecs(self._arguments())
        core = self.make(
            **{
                name: codecs[name].decode(value)
                for name, value in settings.items()
                if name not in self._carried
            }
        )
        for name, codec in self._codecs(self._carried).items():
            setattr(core, name, codec.decode(settings[name]))
        return core

    def _arguments(self) -> list[str]:
        return [
            field.name
            for field in dataclasses.fields(self.make)
            if field.init and field.name not in FOR_PEOPLE
        ]

    def _codecs(self, names: Sequence[str]) -> dict[str, Codec]:
        hints = get_type_hints(self.make)
        return {name: codec_of(hints[name]) for name in names}


KINDS: Mapping[CoreName, CoreKind] = {
    "turns": CoreKind(TurnRoundRobin, TurnEvent, Grant),
    "load": CoreKind(LoadManager, LoadEvent, LoadCommand, carried=("control",)),
    "capacity": CoreKind(CapacityCore, CapacityEvent, CapacityCommand),
    "tuning": CoreKind(TuningCore, TuningEvent, TuningCommand, carried=("memory",)),
}


def header_of(core: CoreName, name: str, clock: str, made: Core) -> Header:
    """Return the header for a core in its state before the first recorded decision."""
    return Header(core, name, clock, KINDS[core].settings_of(made))


def header_line(header: Header) -> dict[str, Any]:
    return {"weir_events": VERSION} | header._asdict()


def cut_line(why: str) -> dict[str, Any]:
    return {"cut": why}


def cut_from(line: Mapping[str, Any]) -> str | None:
    """If the line says why the log ends early, return this reason; otherwise None."""
    return str(line["cut"]) if line.keys() == {"cut"} else None


def header_from(line: Mapping[str, Any]) -> Header:
    if line.get("weir_events") != VERSION:
        raise NotARecord(f"the line is not an event-log header of version {VERSION}")
    core = next((kind for kind in KINDS if kind == line.get("core")), None)
    if core is None:
        raise NotARecord(
            f"the header names an unknown core {line.get('core')!r}; expected one of {', '.join(KINDS)}"
        )
    name, clock, settings = (line.get(key) for key in ("name", "clock", "settings"))
    if type(name) is not str or type(clock) is not str or type(settings) is not dict:
        raise NotARecord("the header of the event log must have a name, a clock and settings")
    return Header(core, name, clock, settings)


def decision_line(kind: CoreKind, now: float, event: Any, commands: Sequence[Any]) -> list[Any]:
    return [_float(now), kind.event.encode(event), commands_line(kind, commands)]


def commands_line(kind: CoreKind, commands: Sequence[Any]) -> list[Any]:
    encode = kind.command.encode
    return [encode(command) for command in commands]


class Decision(NamedTuple):
    """Recorded call of `handle`. Its commands stay encoded, to be compared with `commands_line`."""

    now: float
    event: Any
    commands: list[Any]


def decision_from(kind: CoreKind, line: Any) -> Decision:
    if type(line) is not list or len(line) != 3:
        raise NotARecord("a decision must have the form [now, event, commands]")
    return Decision(_float_back(line[0]), kind.event.decode(line[1]), _list(line[2]))
