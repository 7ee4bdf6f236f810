"""The command `python -m bench.papers`, run on its fastest experiment."""

import dataclasses
import gc
import signal
import subprocess
import sys
from multiprocessing import active_children
from pathlib import Path

import pytest

from bench.papers.collection import EXPERIMENTS
from bench.papers.command import app
from bench.papers.markdown import PAGE
from bench.papers.record import RECORD
from tests.support.checkout import ROOT
from tests.support.terminal import Terminal, refusal


@pytest.fixture
def papers(terminal: Terminal) -> Terminal:
    return dataclasses.replace(terminal, command=app, name="papers")


LEAST = "dilos-redistribution"


def test_bench_papers_prints_claims_and_writes_a_page(papers: Terminal, tmp_path: Path) -> None:
    done = papers(LEAST, "--quick")
    assert (done.code, done.err) == (0, "")
    assert "7 of 7 claims hold" in done.out
    assert done.out.splitlines()[-1] == "page: weir-papers/papers.html"
    source = (tmp_path / "weir-papers" / "papers.html").read_text(encoding="utf-8")
    assert "7 of 7 claims hold" in source
    assert max(map(len, done.out.splitlines())) <= 80


def test_json_output_of_bench_papers_is_one_object_with_every_claim(papers: Terminal) -> None:
    done = papers(LEAST, "--quick", "-o", "json", "--out", "here")
    assert (done.code, done.err) == (0, "page: here/papers.html\n")
    (one,) = done.json["experiments"]
    assert (done.json["quick"], done.json["claims"], done.json["hold"]) == (True, 7, 7)
    assert (one["paper"], one["name"]) == ("dilos", LEAST)
    assert {key for found in one["findings"] for key in found} == {
        "where",
        "claim",
        "claimed",
        "got",
        "rule",
        "holds",
        "agrees",
        "why",
        "note",
    }


def test_experiments_are_listed_without_running(papers: Terminal, tmp_path: Path) -> None:
    done = papers("--list")
    assert [one.name for one in EXPERIMENTS if one.name not in done.out] == []
    assert not (tmp_path / "weir-papers").exists()


def test_an_unknown_experiment_is_refused_with_the_nearest_name(papers: Terminal) -> None:
    assert papers("dilos-redistributions") == refusal(
        "NAMES: there is no experiment and no paper of this name (got 'dilos-redistributions')",
        "  hint: did you mean dilos-redistribution?",
    )


def test_an_unknown_output_format_is_refused(papers: Terminal) -> None:
    assert papers(LEAST, "-o", "jsonl").code == 2


def test_an_interrupted_run_ends_its_processes_and_leaves_no_traceback(
    papers: Terminal, tmp_path: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before, others = signal.signal(signal.SIGALRM, interrupt), set(active_children())
    # Garbage collection is off. It calls a function of Hypothesis, and a KeyboardInterrupt in this function would be lost.
    gc.disable()
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        done = papers("dilos-sc", "dilos-steps")
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (done.code, done.out, set(active_children()) - others) == (130, "", set())
    assert "Traceback" not in done.err


def test_a_quick_run_renews_neither_the_committed_results_nor_the_page(papers: Terminal) -> None:
    before = [path.read_bytes() for path in (RECORD, PAGE)]
    assert papers(LEAST, "--quick").code == 0
    assert [path.read_bytes() for path in (RECORD, PAGE)] == before


def test_experiments_that_do_not_end_in_time_are_stopped_and_named(papers: Terminal) -> None:
    others = set(active_children())
    done = papers("dilos-sc", "--quick", "--limit-min", "0.01")
    assert (done.code, set(active_children()) - others) == (1, set())
    assert done.err == "stopped after 0.01 minutes: dilos-sc\n"


@pytest.mark.slow
def test_bench_papers_run_as_a_module_completes_in_its_worker_processes(tmp_path: Path) -> None:
    """Run the command in a separate process, because the module `__main__` of the test process is not the command."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.papers", LEAST, "--quick", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "7 of 7 claims hold" in done.stdout) == (0, True), done.stderr
