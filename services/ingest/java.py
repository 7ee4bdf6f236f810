"""Search for a Java that Spark can use: in the configured folder, or else in JAVA_HOME, the PATH and Debian's folders.

If a folder is configured, it must have a suitable Java. In all other folders an unsuitable Java is skipped.
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
# Java module that Spark loads when it starts; minimal Java runtimes lack it.
MODULE = "jdk.incubator.vector"
INSTALL = "install Java with `apt-get install openjdk-17-jre-headless`"
USUAL_PLACES = Path("/usr/lib/jvm")
# Seconds that an executable may take to print its version; a Java takes a quarter of a second.
ANSWERS_S = 20.0


@dataclass(frozen=True, slots=True)
class Java:
    """Java that Spark can use."""

    home: Path
    version: int


@dataclass(frozen=True, slots=True)
class Unfit:
    """Executable that Spark cannot use, and why."""

    executable: Path
    why: str


def find_java(
    asked_for: Path | None,
    environ: Mapping[str, str],
    places: Path = USUAL_PLACES,
    field: str = "session.java_home",
) -> Java:
    """Return the first suitable Java; raise InvalidInput, which lists the unsuitable ones and what to install."""
    if asked_for is not None:
        java = examined(asked_for / "bin" / "java")
        if isinstance(java, Unfit):
            hint = f"give the folder of Java {LEAST_VERSION} or newer, or leave the field out; {INSTALL}"
            raise InvalidInput(
                f"Spark cannot use the Java in this folder: {java.why}", field, str(asked_for), hint
            )
        return java
    unfit: list[Unfit] = []
    for executable in candidates(environ, places):
        java = examined(executable)
        if isinstance(java, Java):
            return java
        unfit.append(java)
    raise none_found(unfit)


def none_found(seen: Sequence[Unfit]) -> InvalidInput:
    title = f"Spark needs Java {LEAST_VERSION} or newer, and none was found"
    if seen:
        title += ": " + "; ".join(f"{program.executable}: {program.why}" for program in seen)
    return InvalidInput(title, hint=INSTALL)


def candidates(environ: Mapping[str, str], places: Path) -> Iterator[Path]:
    """Yield the Java executables in the order of the search, each file once."""
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
    # Oldest first: Spark is tested most with the oldest version that it supports.
    installed = [*places.glob("*/bin/java"), *places.glob("*/jre/bin/java")]
    yield from sorted(
        installed, key=lambda path: ([int(digits) for digits in re.findall(r"\d+", str(path))], path)
    )


def examined(executable: Path) -> Java | Unfit:
    """Run an executable to get its version and home; return it as a Java that Spark can use, or as one that Spark cannot use."""
    output = answer(executable, "-XshowSettings:properties", "-version")
    if isinstance(output, Unfit):
        return output
    # Java 8 reports its version as 1.8.
    version = spoken(output, r"java\.specification\.version = (?:1\.)?(\d+)")
    home = spoken(output, r"java\.home = (\S.*?)")
    if version is None or home is None:
        return Unfit(executable, "it does not print its version")
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
        return Unfit(executable, "there is no such file")
    except (OSError, subprocess.SubprocessError) as problem:
        return Unfit(executable, f"it does not run ({type(problem).__name__})")
    return (done.stderr + done.stdout).decode(errors="replace")


def spoken(told: str, pattern: str) -> str | None:
    """Return the group that the pattern captures in a line of the output; None if no line matches."""
    match = re.search(rf"^\s*{pattern}\s*$", told, re.MULTILINE)
    return None if match is None else match.group(1)
