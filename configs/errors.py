"""Errors that Weir reports, with the same fields for terminal, log and network.

    WeirError                 any error that Weir reports on purpose
    ├── InvalidInput          the caller's file, field or argument is wrong: nothing was run, correct it and call again
    │   ├── Several           several problems of one input
    │   ├── WrongType         a value has a type that is not accepted
    │   ├── UnknownName       a name does not exist; the hint has the most similar names that do
    │   ├── InUse             a declaration cannot be deleted because other declarations use it
    │   ├── VersionDiffers    the declaration has changed since the caller read it
    │   └── PlanningError     a query cannot be planned; with line and column (`engine.sql.errors`)
    ├── NotAllowed            the request has no key, or its key does not permit the request
    └── Away                  a process or service that is needed does not answer now: try again later
        └── Busy              a process or service answers, but has no room now

A model's validator raises Contradiction, which `configs.yaml_loading` turns into InvalidInput with file and path.

Every error says what is wrong (with the wrong value), where (file and field), and what to do. Defects of Weir's own code
are not in this tree: they are assertions, which stop the run.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(eq=False)
class WeirError(Exception):
    """Error with typed fields, which can be pickled, and printed or sent in any form."""

    title: str
    field: str = ""
    value: object = None
    hint: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.title, self.field, self.value, self.hint, self.file)

    def __str__(self) -> str:
        return f"{self.complaint()}\n  hint: {self.hint}" if self.hint else self.complaint()

    def complaint(self) -> str:
        """Return the error as text, without the hint."""
        text = ": ".join(part for part in (self.file, self.field, self.title) if part)
        return text if self.value is None else f"{text} (got {shown(self.value)})"


class InvalidInput(WeirError):
    """Mistake in the caller's input; nothing was run."""


@dataclass(eq=False)
class Several(InvalidInput):
    """Several problems of one input. The fields are those of the first problem; the text lists all problems."""

    problems: tuple[InvalidInput, ...] = ()

    @classmethod
    def of(cls, problems: Sequence[InvalidInput]) -> InvalidInput:
        """Return the only problem unchanged, or one error that contains several problems."""
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
    """Value of a type that is not accepted; raised only for calls from Python."""


class UnknownName(InvalidInput):
    """Reference to something that does not exist."""


@dataclass(eq=False)
class InUse(InvalidInput):
    """Attempt to delete or change a declaration that other declarations use."""

    users: tuple[str, ...] = ()
    """Names of the declarations that use the declaration in question."""


class VersionDiffers(InvalidInput):
    """Change refused because the declaration has changed since the caller read it; the caller must read the declaration again."""


class NotAllowed(WeirError):
    """Request without a key, with a key that is no longer valid, or with a key that does not permit the request."""


class Away(WeirError):
    """A process or service that the request needs cannot be reached or has no room now; try again later."""


class Busy(Away):
    """A process or service that the request needs can be reached, but has no room now."""


class Contradiction(ValueError):
    """Fields of one model that contradict each other; raised by a validator, which does not know file and path."""

    def __init__(self, title: str, field: str = "", value: object = None, hint: str = "") -> None:
        super().__init__(title)
        self.title, self.field, self.value, self.hint = title, field, value, hint


def sentence(problem: BaseException) -> str:
    """Return a problem as one line: what is wrong, the wrong value, and what to do."""
    if not isinstance(problem, WeirError):
        first, _, _ = str(problem).partition("\n")
        return f"{type(problem).__name__}: {first}"
    return f"{problem.complaint()}; {problem.hint}" if problem.hint else problem.complaint()


def shown(value: object, width: int = 80) -> str:
    """Return the value as the user wrote it; a text longer than `width` characters is cut."""
    text = BRIEF.repr(value).removesuffix(".0")
    return text if len(text) <= width else text[: width - 1] + "…"


# Formatter that renders only the beginning of a large value, since a short YAML file with aliases can stand for an endless text.
BRIEF = reprlib.Repr()
BRIEF.maxlevel, BRIEF.maxlist, BRIEF.maxdict = 3, 10, 10
BRIEF.maxstring = BRIEF.maxlong = BRIEF.maxother = 100


def similar(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that the user probably meant, the most similar first."""
    # If a name is very similar, the user almost certainly meant the most similar name, and only this name is returned.
    certain = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    return certain or difflib.get_close_matches(name, names, n=3, cutoff=0.5)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the names that the user probably meant, or else the first known names."""
    names = sorted(known)
    close = similar(name, names)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"known: {listed}" if names else "no names are known"
