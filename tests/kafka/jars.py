"""Jars of a real Kafka broker and of Spark's connector for it, fetched by Maven and compared with the committed checksums.

`broker.xml` and `connector.xml` pin the versions, `jars.sha256` the content of every jar. The jars are kept outside the checkout,
in `WEIR_KAFKA_CACHE` or in `~/.cache/weir/kafka`. If all of them are there already, Maven is not needed.

    python -m tests.kafka.jars             fetch the jars, and print their folder
    python -m tests.kafka.jars --accept    write jars.sha256 after a version was changed
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
SUMS = HERE / "jars.sha256"
# Each kind of jars has a POM file and a folder of the same name.
KINDS = ("broker", "connector")
MAVEN = "dependency:copy-dependencies"
FETCH_S = 600.0


class NoJars(Exception):
    """Error for jars that cannot be fetched, with the reason in one line."""


@dataclass(frozen=True)
class Jars:
    """Jars of the broker and of the connector, all with the checksums in `jars.sha256`."""

    broker: Sequence[Path]
    connector: Sequence[Path]


def cache() -> Path:
    named = os.environ.get("WEIR_KAFKA_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "weir" / "kafka"


def jars() -> Jars:
    """Return the jars. If a jar is missing or has another checksum, fetch all jars of its kind. Raise NoJars if that is impossible."""
    wanted = sums_wanted()
    return Jars(*(fetched(kind, wanted[kind]) for kind in KINDS))


def fetched(kind: str, wanted: Mapping[str, str]) -> list[Path]:
    folder = cache() / kind
    if sums_in(folder) != wanted:
        cache().mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache()) as name:
            new = Path(name) / kind
            run_maven(kind, new)
            check(kind, sums_in(new), wanted)
            shutil.rmtree(folder, ignore_errors=True)
            new.rename(folder)
    return [folder / name for name in wanted]


def check(kind: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise NoJars if the jars that were fetched differ from the committed checksums."""
    different = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    if different:
        raise NoJars(f"jars of tests/kafka/{kind}.xml differ from jars.sha256: {', '.join(different)}")


def run_maven(kind: str, folder: Path) -> None:
    program = shutil.which("mvn")
    if program is None:
        raise NoJars("Maven is missing: apt-get install maven (make tools does, as root)")
    # With option -C, Maven refuses a download that differs from its published checksum.
    options = ["-B", "-q", "-C", "-f", str(HERE / f"{kind}.xml"), f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run([program, *options, MAVEN], capture_output=True, text=True, timeout=FETCH_S)
    except subprocess.TimeoutExpired:
        raise NoJars(f"Maven has not fetched the jars of {kind}.xml within {FETCH_S:g} s") from None
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        why = errors[0].removeprefix("[ERROR] ") if errors else done.stderr.strip().partition("\n")[0]
        raise NoJars(f"Maven cannot fetch the jars of tests/kafka/{kind}.xml: {why}")


def sums_wanted() -> dict[str, dict[str, str]]:
    """Return the committed checksums as {kind of jars: {name of the jar: checksum}}."""
    wanted: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for line in SUMS.read_text(encoding="utf-8").splitlines():
        checksum, path = line.split()
        kind, _, name = path.partition("/")
        wanted[kind][name] = checksum
    return wanted


def sums_in(folder: Path) -> dict[str, str]:
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}


def accept() -> None:
    """Fetch all jars, and write their checksums to `jars.sha256`."""
    lines = []
    with TemporaryDirectory() as name:
        for kind in KINDS:
            run_maven(kind, Path(name) / kind)
            found = sums_in(Path(name) / kind)
            lines += [f"{checksum}  {kind}/{jar}\n" for jar, checksum in found.items()]
    SUMS.write_text("".join(lines), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    try:
        if "--accept" in arguments:
            accept()
        jars()
    except NoJars as problem:
        print(f"kafka: {problem}", file=sys.stderr)
        return 1
    print(f"kafka: the jars are in {cache()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
