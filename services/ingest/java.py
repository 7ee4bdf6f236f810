"""Finds a Java that Spark runs on: the one that is asked for, JAVA_HOME, the PATH, where Debian puts them.

What is asked for by name must do; what stands about may be too old, and the next place is looked at.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.errors import InvalidInput

LEAST_VERSION = 17
# Spark asks for it when it starts; a runtime that is cut down to the base does not have it.
MODULE = "jdk.incubator.vector"
INSTALL = "install it with `apt-get install openjdk-17-jre-headless`"
USUAL_PLACES = Path("/usr/lib/jvm")
# A Java says its version in a quarter of a second; one that says nothing is none.
ANSWERS_S = 20.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that will do."""

    home: Path
    version: int


@dataclass(frozen=True, slots=True)
class Unfit:
    """Something that was looked at, and why it will not do."""

    executable: Path
    why: str


def find_java(
    asked_for: Path | None,
    environ: Mapping[str, str],
    places: Path = USUAL_PLACES,
    field: str = "session.java_home",
) -> Java:
    """The first that will do; InvalidInput says what was looked at, and what to install."""
    if asked_for is not None:
        java = examined(asked_for / "bin" / "java")
        if isinstance(java, Unfit):
            hint = f"give the folder of a Java {LEAST_VERSION} or newer, or leave it out; {INSTALL}"
            raise InvalidInput(f"no Java for Spark: {java.why}", field, str(asked_for), hint)
        return java
    unfit: list[Unfit] = []
    for executable in candidates(environ, places):
        java = examined(executable)
        if isinstance(java, Java):
            return java
        unfit.append(java)
    raise none_found(unfit)


def none_found(seen: Sequence[Unfit]) -> InvalidInput:
    title = f"Spark needs Java {LEAST_VERSION} or newer, and there is none"
    if seen:
        title += ": " + "; ".join(f"{program.executable}: {program.why}" for program in seen)
    return InvalidInput(title, hint=INSTALL)


def candidates(environ: Mapping[str, str], places: Path) -> Iterator[Path]:
    """Executables by place, each file once."""
    executables: set[Path] = set()
    for executable in ordered(environ, places):
        real = executable.resolve()
        if real not in executables:
            executables.add(real)
            yield executable


def ordered(environ: Mapping[str, str], places: Path) -> Iterator[Path]:
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path)
    # Oldest first: Spark is tried most with the least that it asks for.
    installed = [*places.glob("*/bin/java"), *places.glob("*/jre/bin/java")]
    yield from sorted(
        installed, key=lambda path: ([int(digits) for digits in re.findall(r"\d+", str(path))], path)
    )


def examined(executable: Path) -> Java | Unfit:
    """What an executable says of itself."""
    output = answer(executable, "-XshowSettings:properties", "-version")
    if isinstance(output, Unfit):
        return output
    # Before 9 it was called 1.8.
    version = spoken(output, r"java\.specification\.version = (?:1\.)?(\d+)")
    home = spoken(output, r"java\.home = (\S.*?)")
    if version is None or home is None:
        return Unfit(executable, "it does not tell its version")
    number = int(version)
    if number < LEAST_VERSION:
        return Unfit(executable, f"it is Java {number}")
    if isinstance(answer(executable, "--add-modules", MODULE, "-version"), Unfit):
        return Unfit(executable, f"its module {MODULE} is missing")
    return Java(Path(home), number)


def answer(executable: Path, *arguments: str) -> str | Unfit:
    command = [os.fspath(executable), *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWERS_S, check=True
        )
    except FileNotFoundError:
        return Unfit(executable, "it is not there")
    except (OSError, subprocess.SubprocessError) as problem:
        return Unfit(executable, f"it does not run ({type(problem).__name__})")
    return (done.stderr + done.stdout).decode(errors="replace")


def spoken(told: str, pattern: str) -> str | None:
    """What a line of the answer says."""
    match = re.search(rf"^\s*{pattern}\s*$", told, re.MULTILINE)
    return None if match is None else match.group(1)
