"""The Grafana server, built from its pinned Go module and kept in a cache.

`module/go.mod` pins the versions, and `module/go.sum` pins the contents. Grafana's module lacks one generated file, so the build copies
the source and generates this file with Google's tool `wire`, as Grafana's own Makefile does. Only the server is built, without the pages
for browsers: its HTTP API and its data sources need none.

`python -m tests.grafana.programs` builds the server if the cache lacks it. The cache is `~/.cache/weir/grafana` or `WEIR_GRAFANA_CACHE`.
The server's folder is named after a hash of all that decides its contents, so a changed pin is built next to the old one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MODULE = Path(__file__).parent / "module"
GRAFANA = "github.com/grafana/grafana"
# The pinned commit is from just before this release. Later commits are not available as Go modules.
VERSION = "10.0.0"
# CGO is necessary, because Grafana stores its data in SQLite, which is written in C.
GO = {"CGO_ENABLED": "1", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
# Two compilers run at a time, so that the machine stays usable during the build.
BUILD = ["-p", "2", "-trimpath", "-tags", "oss", "-ldflags", f"-s -w -X main.version={VERSION}"]
# Parts of the source that the server reads while it runs.
READ_BY_SERVER = ("conf", "public/emails", "public/views", "public/app/plugins")
# Parts of the source that the build does not read.
UNREAD = shutil.ignore_patterns("*_test.go", "docs", "e2e", "devenv", "node_modules")
NEEDED = {"go": "Go 1.26 or newer", "gcc": "a C compiler (apt-get install gcc libc6-dev)"}


class BuildError(Exception):
    """Error for a server that cannot be built on this machine, with the reason in one line."""


def cache_folder() -> Path:
    named = os.environ.get("WEIR_GRAFANA_CACHE")
    folder = Path(named) if named else Path.home() / ".cache" / "weir" / "grafana"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def built() -> Path:
    """Return the server's folder in the cache. It contains `bin/grafana` and the files that the server reads."""
    digest = hashlib.sha256(repr((GO, BUILD, READ_BY_SERVER)).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return cache_folder() / f"grafana-{VERSION}-{digest.hexdigest()[:12]}"


def build_missing() -> Path:
    """Build the server if the cache lacks it, and return its folder. Raise BuildError if the server cannot be built."""
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built().exists():
            missing = [what for program, what in NEEDED.items() if shutil.which(program) is None]
            if missing:
                verbs = ("is", "it builds") if len(missing) == 1 else ("are", "they build")
                raise BuildError(
                    f"{' and '.join(missing)} {verbs[0]} missing; {verbs[1]} Grafana from source"
                )
            print(f"grafana: building Grafana {VERSION}, which takes about twenty minutes", flush=True)
            build()
    return built()


def build() -> None:
    with TemporaryDirectory(dir=cache_folder()) as name:
        module, source, made = (Path(name) / part for part in ("module", "source", "made"))
        shutil.copytree(MODULE, module)
        # Go compares the download with go.sum. Afterwards the download is copied and changed, which go.sum cannot check.
        downloaded = json.loads(go(module, "mod", "download", "-json", GRAFANA))["Dir"]
        shutil.copytree(downloaded, source, ignore=UNREAD)
        make_writable(source)
        go(module, "mod", "edit", f"-replace={GRAFANA}={source}")
        go(module, "tool", "wire", "gen", "-tags", "oss", f"{GRAFANA}/pkg/server")
        go(module, "build", *BUILD, "-o", f"{made / 'bin'}{os.sep}", f"{GRAFANA}/pkg/cmd/grafana")
        for part in READ_BY_SERVER:
            shutil.copytree(
                source / part, made / part, ignore=shutil.ignore_patterns("*.ts*", "*.svg", "*.png")
            )
        made.rename(built())


def make_writable(folder: Path) -> None:
    """Make all files of a folder writable, because files copied from Go's cache are read-only."""
    for parent, _, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent) / file for file in files)):
            path.chmod(path.stat().st_mode | 0o200)


def go(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["nice", "go", *arguments],
        cwd=folder,
        env=os.environ | GO,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise BuildError(f"go {arguments[0]} failed: {reason}")
    return done.stdout


def main() -> int:
    try:
        folder = build_missing()
    except BuildError as problem:
        print(f"grafana: {problem}", file=sys.stderr)
        return 1
    print(f"grafana: Grafana {VERSION} is in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
