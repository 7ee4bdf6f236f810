"""`.ci/run` runs the suites that build their own programs only if enough time is left, and prints why it leaves out a suite."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.checkout import ROOT

# Stand-in for `make`. It writes its targets to the file `targets`, and fails for the targets in the variable FAILED.
# The target in the variable LATE ends as if `timeout` had interrupted it.
MAKE = """\
#!/bin/sh
shift
echo "$@" >>targets
for target in $FAILED; do
    [ "$1" != "$target" ] || { echo "$1: a node needs runc"; exit 1; }
done
[ "$1" != "$LATE" ] || { echo "==== some tests of $1 passed"; exit 124; }
echo "==== all tests of $1 passed"
"""
# Stand-in for Python: the layers of the images are in the cache if the variable LAYERS is set.
PYTHON = '#!/bin/sh\n[ -n "${LAYERS:-}" ]\n'


def run(
    folder: Path, minutes: int, failed: str = "", layers: str = "yes", late: str = ""
) -> tuple[list[str], list[str]]:
    """Run the script as if some minutes have passed. Return the targets, and the lines of the script itself with the last line."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    for program, text in (("make", MAKE), (".venv/bin/python", PYTHON)):
        (folder / program).parent.mkdir(parents=True, exist_ok=True)
        (folder / program).write_text(text, "utf-8")
        (folder / program).chmod(0o755)
    variables = {"FAILED": failed, "LATE": late, "LAYERS": layers, "SECONDS": str(minutes * 60)}
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        env=os.environ | variables | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    own = [line for line in lines[:-1] if line.startswith(("== NOT RUN", "== INTERRUPTED"))]
    return (folder / "targets").read_text("utf-8").splitlines(), [*own, lines[-1]]


def test_suite_of_the_node_runs_last_while_enough_time_is_left(tmp_path: Path) -> None:
    targets, lines = run(tmp_path, minutes=40)
    assert targets[-4:] == ["test-cluster", "test-grafana", "node", "test-node ARGS=-x"]
    assert lines == ["==== all tests of test-node passed"]


def test_missing_layers_of_the_images_need_more_time(tmp_path: Path) -> None:
    targets, lines = run(tmp_path, minutes=40, layers="")
    assert targets[-2:] == ["test-grafana", "node"]
    reason = "40 minutes have passed, and the target may start only in the first 35"
    assert lines == [f"== NOT RUN: make test-node: {reason}", "==== all tests of test-grafana passed"]


def test_machine_that_cannot_run_a_node_is_named_as_the_reason(tmp_path: Path) -> None:
    targets, lines = run(tmp_path, minutes=0, failed="node")
    assert targets[-1] == "node"
    assert lines == [
        "== NOT RUN: make test-node: node: a node needs runc",
        "==== all tests of test-grafana passed",
    ]


def test_no_suite_that_builds_programs_starts_late(tmp_path: Path) -> None:
    targets, lines = run(tmp_path, minutes=70)
    assert targets[-2:] == ["test-kafka", "node"]
    assert [line.partition(" minutes")[0] for line in lines] == [
        "== NOT RUN: make test-cluster: 70",
        "== NOT RUN: make test-grafana: 70",
        "== NOT RUN: make test-node: 70",
        "==== all tests of test-kafka passed",
    ]


def test_a_suite_that_is_interrupted_for_lack_of_time_is_named_and_does_not_fail_the_run(
    tmp_path: Path,
) -> None:
    targets, lines = run(tmp_path, minutes=40, late="test-node")
    assert targets[-1] == "test-node ARGS=-x"
    assert [line.partition(": 40")[0] for line in lines] == [
        "== INTERRUPTED: make test-node",
        "==== some tests of test-node passed",
    ]
