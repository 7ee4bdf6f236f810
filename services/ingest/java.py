"""Search for a Java that Spark can use: in the configured folder, or else in JAVA_HOME, the PATH and Debian's folder for Java.

A configured folder must have a suitable Java. In all other folders, an unsuitable Java is skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from configs.errors import InvalidInput

LEAST_VERSION = 17
# Java module that Spark loads when it starts. Minimal Java runtimes lack it.
MODULE = "jdk.incubator.vector"
INSTALL = "install Java with `apt-get install openjdk-17-jre-headless`"
USUAL_PLACES = Path("/usr/lib/jvm")
# Maximum seconds for which the search waits until an executable has printed its version. Java takes a quarter of a second.
ANSWERS_S = 20.0


@dataclass(frozen=True, slots=True)
class Java:
    """Java that Spark can use."""

    home: Path
    version: int


class UnfitJava(Exception):
    """Reason why Spark cannot use an executable."""


def find_java(
    asked_for: Path | None,
    environ: Mapping[str, str],
    places: Path = USUAL_PLACES,
    field: str = "session.java_home",
) -> Java:
    """Return the first Java that Spark can use. Without such a Java, raise InvalidInput, which lists the unsuitable ones."""
    if asked_for is not None:
        try:
            return examined(asked_for / "bin" / "java")
        except UnfitJava as why:
            hint = f"give the folder of Java {LEAST_VERSION} or newer, or leave the field out; {INSTALL}"
            title = f"Spark cannot use the Java in this folder: {why}"
            raise InvalidInput(title, field, str(asked_for), hint) from None
    unfit: dict[Path, str] = {}
    for executable in candidates(environ, places):
        if executable.resolve() not in unfit:
            try:
                return examined(executable)
            except UnfitJava as why:
                unfit[executable.resolve()] = f"{executable}: {why}"
    title = f"Spark needs Java {LEAST_VERSION} or newer, and none was found"
    if unfit:
        title += f": {'; '.join(unfit.values())}"
    raise InvalidInput(title, hint=INSTALL)


def candidates(environ: Mapping[str, str], places: Path) -> Iterator[Path]:
    """Yield the Java executables in the order of the search. Two paths may lead to the same file."""
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path)
    # Older versions come first, because Spark is tested most with the oldest version that it supports.
    installed = [*places.glob("*/bin/java"), *places.glob("*/jre/bin/java")]
    yield from sorted(
        installed, key=lambda path: ([int(digits) for digits in re.findall(r"\d+", str(path))], path)
    )


def examined(executable: Path) -> Java:
    """Run an executable to get the version and home of its Java; raise UnfitJava if Spark cannot use this Java."""
    output = answer(executable, "-XshowSettings:properties", "-version")
    # Java 8 reports its version as 1.8.
    version = spoken(output, r"java\.specification\.version = (?:1\.)?(\d+)")
    home = spoken(output, r"java\.home = (\S.*?)")
    if version is None or home is None:
        raise UnfitJava("it does not print its version")
    if int(version) < LEAST_VERSION:
        raise UnfitJava(f"it is Java {version}")
    try:
        answer(executable, "--add-modules", MODULE, "-version")
    except UnfitJava:
        raise UnfitJava(f"its module {MODULE} is missing") from None
    return Java(Path(home), int(version))


def answer(executable: Path, *arguments: str) -> str:
    command = [os.fspath(executable), *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWERS_S, check=True
        )
    except FileNotFoundError:
        raise UnfitJava("there is no such file") from None
    except (OSError, subprocess.SubprocessError) as problem:
        raise UnfitJava(f"it does not run ({type(problem).__name__})") from None
    return (done.stderr + done.stdout).decode(errors="replace")


def spoken(told: str, pattern: str) -> str | None:
    """Return the text that the pattern's group matches in a line of an executable's output; None if no line matches."""
    match = re.search(rf"^\s*{pattern}\s*$", told, re.MULTILINE)
    return None if match is None else match.group(1)
