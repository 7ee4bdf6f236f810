"""What a core was told and what it answered, as values that JSON can hold and that come back exactly.

    header      {"weir_events": version, "core": kind, "name": …, "clock": …, "settings": {argument: value}}
    decision    [now, event, [command, …]]
    cut         {"cut": why nothing follows}

An event or a command is [type, field, …]; inside it, types say how a value is read, so nothing else is tagged:

    float                     itself; "inf", "-inf", "nan"
    enumeration               its value
    dataclass, tuple          [field, …], [item, …]
    mapping                   [[key, value], …], because shares are places in a round: their order counts
    settings                  an object

The kinds of cores are in `KINDS`; what they hear and say is read off the unions of their modules. A type that cannot
be written is refused when this module is imported.
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
# What a core remembers for people alone.
FOR_PEOPLE = {"explanations"}

CoreName = Literal["turns", "load", "capacity", "tuning"]


class NotARecord(ValueError):
    """A value that no record of this version holds."""


class Core(Protocol):
    """What is recorded: an active part of the pure ring."""

    @property
    def handle(self) -> Callable[[Any, float], tuple[Any, ...]]: ...


@runtime_checkable
class Restorable(Protocol):
    """A core whose state can be carried, in terms of JSON."""

    def state(self) -> dict[str, Any]: ...

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self: ...


class Codec(NamedTuple):
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class Header(NamedTuple):
    """The beginning of a life: which core it is and what it was made from."""

    core: CoreName
    name: str
    clock: str
    """Times of the same clock can be compared."""
    settings: Mapping[str, Any]


# -- values, by their types ---------------------------------------------------------------------------------


@cache
def codec_of(kind: Any) -> Codec:
    """How values of a type are written and read."""
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
    raise TypeError(f"{kind} cannot be recorded")


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
    raise NotARecord(f"{value!r} is no number")


def _exactly(kind: type) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise NotARecord(f"{value!r} is no {kind.__name__}")
        return value

    return decode


def _one_of(known: tuple[Any, ...]) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if value not in known:
            raise NotARecord(f"{value!r} is none of {known}")
        return value

    return decode


def _call(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Reading by a constructor that refuses what it cannot be made from."""

    def decode(value: Any) -> Any:
        try:
            return make(value)
        except ValueError as problem:
            raise NotARecord(str(problem)) from None

    return decode


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise NotARecord(f"{value!r} is no list")
    return value


def _optional(kind: Any, args: tuple[Any, ...]) -> Codec:
    inner = [arg for arg in args if arg is not NoneType]
    if len(inner) != 1 or len(args) != 2:
        raise TypeError(f"{kind} cannot be recorded: nothing would tell which of them it is")
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
            raise NotARecord("a key is there twice")
        return result

    return Codec(lambda value: pairs.encode(value.items()), decode)


def _dataclass(kind: type[Any]) -> Codec:
    hints, fields = get_type_hints(kind), [field for field in dataclasses.fields(kind) if field.init]
    names = [field.name for field in fields]
    # What came to a type later may be missing, if it has a default.
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
            raise NotARecord(f"{len(value)} values instead of {len(decoders)}")
        return make([decode(one) for decode, one in zip(decoders, value, strict=False)])

    return Codec(encode, decode)


# -- kinds of cores -----------------------------------------------------------------------------------------


class Tagged:
    """Values of some types, each with the name of its type before it."""

    def __init__(self, union: Any) -> None:
        kinds = get_args(union) or (union,)
        self._encoders = {kind: (kind.__name__, codec_of(kind).encode) for kind in kinds}
        self._decoders = {kind.__name__: codec_of(kind).decode for kind in kinds}

    def encode(self, value: Any) -> list[Any]:
        name, encode = self._encoders[type(value)]
        return [name, *encode(value)]

    def decode(self, value: Any) -> Any:
        if type(value) is not list or not value or type(value[0]) is not str:
            raise NotARecord(f"{value!r} is neither event nor command")
        decode = self._decoders.get(value[0])
        if decode is None:
            raise NotARecord(f"{value[0]!r} is none of {', '.join(self._decoders)}")
        return decode(value[1:])


class CoreKind:
    """A kind of core: how it is made, what it hears, what it says."""

    def __init__(self, make: type[Any], events: Any, commands: Any, carried: Sequence[str] = ()) -> None:
        """`carried` are attributes that a core may be given before its first decision."""
        self.make, self._carried = make, carried
        self.event, self.command = Tagged(events), Tagged(commands)

    def settings_of(self, core: Core) -> dict[str, Any]:
        """What makes the core anew as it is now: its state, if it can tell, or else the arguments it began with."""
        if isinstance(core, Restorable):
            return core.state()
        codecs = self._codecs([*self._arguments(), *self._carried])
        # An argument that is None is left out, so that records of a core without it stay as they were.
        values = {name: (codec, getattr(core, name)) for name, codec in codecs.items()}
        return {name: codec.encode(value) for name, (codec, value) in values.items() if value is not None}

    def core_of(self, settings: Mapping[str, Any]) -> Core:
        try:
            core: Core = self._core_of(settings)
        except (KeyError, TypeError, ValueError) as problem:
            raise NotARecord(f"no {self.make.__name__} is made from that: {problem}") from None
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


# -- lines of a log -----------------------------------------------------------------------------------------


def header_of(core: CoreName, name: str, clock: str, made: Core) -> Header:
    """Of a core as it is before the first decision that is recorded."""
    return Header(core, name, clock, KINDS[core].settings_of(made))


def header_line(header: Header) -> dict[str, Any]:
    return {"weir_events": VERSION} | header._asdict()


def cut_line(why: str) -> dict[str, Any]:
    return {"cut": why}


def cut_from(line: Mapping[str, Any]) -> str | None:
    """Why nothing follows, if the line says so."""
    return str(line["cut"]) if line.keys() == {"cut"} else None


def header_from(line: Mapping[str, Any]) -> Header:
    if line.get("weir_events") != VERSION:
        raise NotARecord(f"no header of version {VERSION}")
    core = next((kind for kind in KINDS if kind == line.get("core")), None)
    if core is None:
        raise NotARecord(f"{line.get('core')!r} is none of {', '.join(KINDS)}")
    name, clock, settings = (line.get(key) for key in ("name", "clock", "settings"))
    if type(name) is not str or type(clock) is not str or type(settings) is not dict:
        raise NotARecord("a header has a name, a clock and settings")
    return Header(core, name, clock, settings)


def decision_line(kind: CoreKind, now: float, event: Any, commands: Sequence[Any]) -> list[Any]:
    return [_float(now), kind.event.encode(event), commands_line(kind, commands)]


def commands_line(kind: CoreKind, commands: Sequence[Any]) -> list[Any]:
    encode = kind.command.encode
    return [encode(command) for command in commands]


class Decision(NamedTuple):
    """One call of `handle`; the commands as they stand in the record, to be compared with `commands_line`."""

    now: float
    event: Any
    commands: list[Any]


def decision_from(kind: CoreKind, line: Any) -> Decision:
    if type(line) is not list or len(line) != 3:
        raise NotARecord("a decision is [now, event, commands]")
    return Decision(_float_back(line[0]), kind.event.decode(line[1]), _list(line[2]))
