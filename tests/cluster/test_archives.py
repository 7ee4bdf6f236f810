"""The cache of image archives, tested with stand-ins for the programs that build images."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.api import wait_until_none
from tests.cluster.archives import BASES, KEPT, NAMES, names_read
from tests.support.checkout import ROOT

pytestmark = pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv of util-linux is missing")

MODULES = ("cluster/archives.py", "cluster/programs.py", "support/build_cache.py", "support/checkout.py")
# Stand-in for `bases/build`. Each run adds a line to `RUNS`. An archive contains the requirements and the source of one module.
BUILD = """\
#!/bin/sh
set -eu
echo "$1" >>"$RUNS"
mkdir -p "$3/archives" "$2"
[ "$1" != "${STOPPED:-}" ] || exec sleep 3600
[ "$1" != "${FAILED:-}" ] || { echo "the mirror does not answer"; exit 1; }
[ "$1" = archives ] || { cp requirements.txt "$2"; exit; }
for name in weir weir-ingest; do cat "$2/requirements.txt" engine/__init__.py >"$3/archives/$name.tar"; done
"""
# Stand-in for `unshare`, which only root may use: run the command without isolation.
UNSHARE = '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n'


class Checkout:
    """A small checkout with its own cache of images."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache, self.log = folder / "checkout", folder / "cache", folder / "runs"
        self.programs = folder / "programs"
        for name in MODULES:
            self.write(f"tests/{name}", (ROOT / "tests" / name).read_text("utf-8"))
        for name in names_read(ROOT):
            self.write(f"{name}/__init__.py" if (ROOT / name).is_dir() else name, "first\n")
        self.write(".dockerignore", (ROOT / ".dockerignore").read_text("utf-8"))
        self.write_program(self.root / BASES / "build", BUILD)
        self.write_program(self.programs / "unshare", UNSHARE)
        for name in ("buildah", "debootstrap"):
            self.write_program(self.programs / name, "#!/bin/sh\n")
        self.log.touch()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, "utf-8")

    def write_program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        own = {"WEIR_CLUSTER_CACHE": str(self.cache), "RUNS": str(self.log), "PATH": path}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.archives", *arguments],
            cwd=self.root,
            env=os.environ | own | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        """Return the exit status, the output and the errors of the command."""
        with self.start(*arguments, **variables) as started:
            output, errors = started.communicate()
        return started.returncode, output, errors

    def build(self) -> list[str]:
        """Build what is missing, and return what was built."""
        before = len(self.runs())
        status, _, errors = self.run()
        assert (status, errors) == (0, "")
        return self.runs()[before:]

    def runs(self) -> list[str]:
        return self.log.read_text("utf-8").split()

    def contents(self) -> set[str]:
        """Return the contents of all archives in the cache."""
        files = self.cache.glob("images/archives-*/*.tar")
        return {file.read_text("utf-8") for file in files if file.stem in NAMES}

    def entries(self) -> list[str]:
        """Return the kinds of the folders in the cache."""
        folders = [path.name for path in (self.cache / "images").iterdir() if path.is_dir()]
        return sorted(name.partition("-")[0] for name in folders)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_unchanged_checkout_is_built_once(checkout: Checkout) -> None:
    assert [checkout.build() for _ in range(2)] == [["layers", "archives"], []]
    assert checkout.contents() == {"first\nfirst\n"}
    (checkout.root / "engine/__pycache__").mkdir()
    checkout.write("engine/__pycache__/module.pyc", "compiled")
    checkout.write("docs/page.md", "no builder reads this page")
    assert checkout.build() == []


def test_changed_source_is_built_on_the_same_layers(checkout: Checkout) -> None:
    checkout.build()
    checkout.write("engine/__init__.py", "second\n")
    assert checkout.build() == ["archives"]
    assert checkout.contents() == {"first\nfirst\n", "first\nsecond\n"}


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements-build.txt", "Dockerfile.ingest", f"{BASES}/ray.Dockerfile"]
)
def test_changed_requirements_and_dockerfiles_need_new_layers(checkout: Checkout, name: str) -> None:
    checkout.build()
    checkout.write(name, "second\n")
    assert checkout.build() == ["layers", "archives"]


def test_only_the_entries_that_were_used_last_stay_in_the_cache(checkout: Checkout) -> None:
    # The third build uses the entries of the first build, and the fourth build replaces those of the second.
    for text in ("first\n", "second\n", "first\n", "third\n"):
        checkout.write("requirements.txt", text)
        checkout.build()
    assert checkout.contents() == {"first\nfirst\n", "third\nfirst\n"}
    assert checkout.entries() == ["archives"] * KEPT + ["layers"] * KEPT


def test_failed_build_is_reported_in_one_line_and_leaves_no_entry(checkout: Checkout) -> None:
    status, _, errors = checkout.run(FAILED="layers")
    log = checkout.cache / "images" / "layers.log"
    assert (status, errors) == (
        1,
        f"images: building layers failed: the mirror does not answer (see {log})\n",
    )
    assert checkout.entries() == []
    assert checkout.run(FAILED="archives")[0] == 1
    assert checkout.entries() == ["layers"]
    assert checkout.build() == ["archives"]


@pytest.mark.parametrize(("stopped", "left"), [("layers", []), ("archives", ["layers"])])
def test_killed_build_leaves_no_entry(checkout: Checkout, stopped: str, left: list[str]) -> None:
    with checkout.start(STOPPED=stopped) as started:
        wait_until_none(lambda: [] if stopped in checkout.runs() else [stopped])
        started.kill()
    assert checkout.entries() == ["build", *left]
    assert checkout.build() == [what for what in ("layers", "archives") if what not in left]
    assert checkout.entries() == ["archives", "layers"]


def test_builds_at_the_same_time_build_everything_once(checkout: Checkout) -> None:
    with checkout.start() as first, checkout.start() as second:
        assert [first.wait(), second.wait()] == [0, 0]
    assert checkout.runs() == ["layers", "archives"]


def test_missing_programs_are_reported_in_one_line(checkout: Checkout) -> None:
    (checkout.programs / "unshare").unlink()
    assert checkout.run(PATH=str(checkout.programs)) == (
        1,
        "",
        "images: unshare and setpriv missing; `.ci/tools images` installs packages\n",
    )
    assert checkout.entries() == []


def test_check_says_whether_the_layers_are_in_the_cache(checkout: Checkout) -> None:
    begin = "images: the layers of the Dockerfiles are"
    assert checkout.run("--check") == (1, f"{begin} missing from the cache\n", "")
    checkout.build()
    assert checkout.run("--check") == (0, f"{begin} in the cache\n", "")
