"""`weir papers`, on the experiment that takes least."""

import gc
import signal
from multiprocessing import active_children
from pathlib import Path

from sim.papers.collection import EXPERIMENTS
from tests.support.terminal import Terminal, refusal
from tests.unit.services.cli.test_cli import weir

__all__ = ["weir"]

LEAST = "dilos-redistribution"


def test_claims_are_printed_and_a_page_is_written(weir: Terminal, tmp_path: Path) -> None:
    done = weir("papers", LEAST, "--quick")
    assert (done.code, done.err) == (0, "")
    assert "7 of 7 claims hold" in done.out
    assert done.out.splitlines()[-1] == "page: weir-papers/papers.html"
    source = (tmp_path / "weir-papers" / "papers.html").read_text(encoding="utf-8")
    assert "7 of 7 claims hold" in source
    assert max(map(len, done.out.splitlines())) <= 80


def test_json_is_one_object_with_every_claim(weir: Terminal) -> None:
    done = weir("papers", LEAST, "--quick", "-o", "json", "--out", "here")
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
        "why",
    }


def test_experiments_are_listed_without_running(weir: Terminal, tmp_path: Path) -> None:
    done = weir("papers", "--list")
    assert [one.name for one in EXPERIMENTS if one.name not in done.out] == []
    assert not (tmp_path / "weir-papers").exists()


def test_an_unknown_name_is_refused_with_the_nearest(weir: Terminal) -> None:
    assert weir("papers", "dilos-redistributions") == refusal(
        "NAMES: no such experiment or paper (got 'dilos-redistributions')",
        "  hint: did you mean dilos-redistribution?",
    )


def test_the_old_spelling_of_json_still_works(weir: Terminal) -> None:
    assert weir("sim", "--replay", "none", "--json") == weir("sim", "--replay", "none", "-o", "json")
    assert weir("papers", LEAST, "-o", "jsonl").code == 2


def test_an_interrupted_run_ends_its_processes_and_leaves_no_traceback(
    weir: Terminal, tmp_path: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before, others = signal.signal(signal.SIGALRM, interrupt), set(active_children())
    gc.disable()  # hypothesis has a callback in it, which nothing is raised out of
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        done = weir("papers", "dilos-sc", "dilos-steps")
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (done.code, done.out, set(active_children()) - others) == (130, "", set())
    assert "Traceback" not in done.err
