import os
import subprocess
import sys
import threading

import pytest

from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores, pin_this_thread
from tests.support.checkout import ROOT

needs_two_cores = pytest.mark.skipif(len(cores_of_process()) < 2, reason="pinning needs at least two cores")


def test_the_last_processors_become_lanes_and_the_first_processors_do_other_work() -> None:
    assert lane_cores(1, {0, 1}) == Cores(lanes=(1,), others=(0,))
    assert lane_cores(2, {6, 2, 4, 0}) == Cores(lanes=(4, 6), others=(0, 2))


@pytest.mark.parametrize(
    ("lanes", "available", "why"),
    [
        (1, {0}, "1 lanes leave no core for other work: there are 1 cores"),
        (4, {0, 1, 2, 3}, "4 lanes leave no core for other work: there are 4 cores"),
        (1, set(), "this system cannot pin threads"),
    ],
)
def test_without_a_processor_for_other_work_no_lane_is_pinned_and_the_reason_is_kept(
    lanes: int, available: set[int], why: str
) -> None:
    cores = lane_cores(lanes, available)
    assert cores == Cores(why_not=why)
    before = cores_of_process()
    assert keep_process_off(cores) is cores
    assert pin_this_thread(cores, 0) is cores
    assert cores_of_process() == before


def test_a_pinning_that_the_system_refuses_is_reported_without_an_error() -> None:
    cores = Cores(lanes=(4095,), others=(4094,))
    assert keep_process_off(cores).why_not == "the system refuses to pin threads: Invalid argument"
    assert pin_this_thread(cores, 0).why_not == "the system refuses to pin threads: Invalid argument"


@needs_two_cores
def test_only_the_calling_thread_is_pinned_to_the_lane() -> None:
    cores = lane_cores(1, cores_of_process())
    found: list[set[int]] = []

    def on_lane() -> None:
        assert pin_this_thread(cores, 0) is cores
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=on_lane)
    before = cores_of_process()
    thread.start()
    thread.join()
    assert found == [set(cores.lanes)]
    assert cores_of_process() == before


@needs_two_cores
def test_a_process_keeps_all_its_threads_off_the_lanes() -> None:
    code = (
        "import os, threading\n"
        "from actors.runtime.cpu_pinning import cores_of_process, keep_process_off, lane_cores\n"
        "end = threading.Event()\n"
        "threading.Thread(target=end.wait).start()\n"
        "cores = lane_cores(1, cores_of_process())\n"
        "assert keep_process_off(cores) is cores\n"
        "for thread in os.listdir('/proc/self/task'):\n"
        "    assert os.sched_getaffinity(int(thread)) == set(cores.others)\n"
        "end.set()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
