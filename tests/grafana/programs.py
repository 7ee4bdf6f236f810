"""The Grafana server, built from its pinned Go module and kept in a cache.

`module/go.mod` pins the versions, and `module/go.sum` pins the contents. Grafana's module lacks one generated file, so the build copies
the source and generates this file with Google's tool `wire`, as Grafana's own Makefile does. Only the server is built, without the pages
for browsers: its HTTP API and its data sources need none.

`python -m tests.grafana.programs` builds the server if the cache lacks it. The cache is `~/.cache/weir/grafana` or `WEIR_GRAFANA_CACHE`.
The server's folder is named after a hash of all that decides its contents, so a changed pin is built next to the old one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from tests.support.build_cache import BuildError, cache_folder, hash_of, locked, run_go, work_folder

CACHE = "grafana"
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


def built() -> Path:
    """Return the server's folder in the cache. It contains `bin/grafana` and the files that the server reads."""
    pins = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]
    settings = repr((GO, BUILD, READ_BY_SERVER)).encode()
    return cache_folder(CACHE) / f"grafana-{VERSION}-{hash_of([settings, *pins])}"


def build_missing() -> Path:
    """Build the server if the cache lacks it, and return its folder. Raise BuildError if the server cannot be built."""
    with locked(cache_folder(CACHE)):
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
    with work_folder(cache_folder(CACHE)) as work:
        module, source, made = (work / part for part in ("module", "source", "made"))
        shutil.copytree(MODULE, module)
        # Go compares the download with go.sum. Afterwards the download is copied and changed, which go.sum cannot check.
        downloaded = json.loads(run_go(module, GO, "mod", "download", "-json", GRAFANA))["Dir"]
        shutil.copytree(downloaded, source, ignore=UNREAD)
        make_writable(source)
        run_go(module, GO, "mod", "edit", f"-replace={GRAFANA}={source}")
        run_go(module, GO, "tool", "wire", "gen", "-tags", "oss", f"{GRAFANA}/pkg/server")
        run_go(module, GO, "build", *BUILD, "-o", f"{made / 'bin'}{os.sep}", f"{GRAFANA}/pkg/cmd/grafana")
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
