"""What went wrong, in one shape for the terminal, the log and the wire.

    WeirError                 anything Weir reports on purpose
    ├── InvalidInput          the caller's file, field or argument: nothing was run, fix it and call again
    │   ├── Several               more than one of them
    │   ├── WrongType         a value of a type that is not taken
    │   ├── UnknownName       a name that is not there, with the nearest ones that are
    │   ├── InUse             something else needs it
    │   ├── VersionDiffers    it was changed meanwhile
    │   └── PlanningError     a query that cannot be planned, with line and column (`engine.sql.errors`)
    ├── NotAllowed            no key, or one that is not for this
    └── Away                  what it takes does not answer now: try again later
        └── Busy              it is there, and has no room now

A validator of a model raises Contradiction, which `configs.yaml_loading` turns into InvalidInput with file and path.

Every error says what is wrong (with the offending value), where (file and field), and what to do. A broken
promise of our own code is not in this tree: that is an assertion, and it stops the run.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(eq=False)
class WeirError(Exception):
    """An error with its story in typed fields, so that it survives pickling and renders anywhere."""

    title: str
    field: str = ""
    value: object = None
    hint: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.title, self.field, self.value, self.hint, self.file)

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.field) if part)
        text = f"{where}: {self.title}" if where else self.title
        if self.value is not None:
            text += f" (got {shown(self.value)})"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class InvalidInput(WeirError):
    """The caller's mistake; nothing has run."""


@dataclass(eq=False)
class Several(InvalidInput):
    """Several problems of one input. The fields are those of the first, the text has all of them."""

    problems: tuple[InvalidInput, ...] = ()

    @classmethod
    def of(cls, problems: Sequence[InvalidInput]) -> InvalidInput:
        """Return the one problem there is, or all of them together."""
        first = problems[0]
        if len(problems) == 1:
            return first
        return cls(
            first.title,
            field=first.field,
            value=first.value,
            hint=first.hint,
            file=first.file,
            problems=tuple(problems),
        )

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class WrongType(InvalidInput, TypeError):
    """A value of a type that is not taken; from Python alone."""


class UnknownName(InvalidInput):
    """A reference to something that does not exist."""


@dataclass(eq=False)
class InUse(InvalidInput):
    """Something else needs it."""

    users: tuple[str, ...] = ()
    """Who does."""


class VersionDiffers(InvalidInput):
    """It was changed meanwhile: read it again."""


class NotAllowed(WeirError):
    """No key was shown, or one that nobody has any more, or that is not for this."""


class Away(WeirError):
    """What it takes cannot be reached or has no room now; try again later."""


class Busy(Away):
    """It is there, and has no room now."""


class Contradiction(ValueError):
    """Fields of one model that cannot hold together; raised by its validator, where file and path are not known."""

    def __init__(self, title: str, field: str = "", value: object = None, hint: str = "") -> None:
        super().__init__(title)
        self.title, self.field, self.value, self.hint = title, field, value, hint


def sentence(problem: BaseException) -> str:
    """Return a problem in one line: what is wrong, with the value, and what to do about it."""
    if not isinstance(problem, WeirError):
        first, _, _ = str(problem).partition("\n")
        return f"{type(problem).__name__}: {first}"
    where = ": ".join(part for part in (problem.file, problem.field) if part)
    text = f"{where}: {problem.title}" if where else problem.title
    if problem.value is not None:
        text += f" (got {shown(problem.value)})"
    return f"{text}; {problem.hint}" if problem.hint else text


def shown(value: object, width: int = 80) -> str:
    """The value as the user wrote it, cut to one line."""
    text = BRIEF.repr(value).removesuffix(".0")
    return text if len(text) <= width else text[: width - 1] + "…"


# Of a large value only the beginning is rendered: YAML aliases can make a short file an endless text.
BRIEF = reprlib.Repr()
BRIEF.maxlevel, BRIEF.maxlist, BRIEF.maxdict = 3, 10, 10
BRIEF.maxstring = BRIEF.maxlong = BRIEF.maxother = 100


def similar(name: str, names: Sequence[str]) -> list[str]:
    """Return what the user probably meant, the most similar name first."""
    # A near-certain match stands alone; what is only similar would draw attention from it.
    certain = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    return certain or difflib.get_close_matches(name, names, n=3, cutoff=0.5)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names what the user probably meant, or all there is when there is little."""
    names = sorted(known)
    close = similar(name, names)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"known: {listed}" if names else "there are none"
