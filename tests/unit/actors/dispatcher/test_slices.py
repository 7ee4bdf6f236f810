"""The host's end of the turn messages: a host around `SliceClient`, with a real turn loop or a dispatcher that the test plays."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest

from actors.host.turn_client import RefusedByDispatcher, SliceClient
from actors.messages.turn_messages import CLASSES_A_HELLO, Ended, Granted, Hello, Ready, RefusedHost
from actors.runtime.unix_channel import Listener
from tests.unit.actors.dispatcher.nodes import HUNG_S, SHARES, MakeNode, Peer, accepted


@dataclass
class Worker:
    """Host with a queue of jobs for each class; a slice runs all queued jobs of its class."""

    path: Path
    names: tuple[str, ...] = ("gold",)
    log: SimpleQueue[tuple[str, str]] = field(default_factory=SimpleQueue)
    problem: BaseException | None = None

    def __post_init__(self) -> None:
        self.jobs: dict[str, SimpleQueue[Callable[[], object]]] = {name: SimpleQueue() for name in self.names}
        self.client = SliceClient(self.path, "host", self.run, self.between, classes=self.names)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        try:
            self.client.serve()
        except RefusedByDispatcher as problem:
            self.problem = problem

    def run(self, name: str, quota_s: float) -> tuple[float, bool]:
        assert threading.current_thread() is self.thread
        jobs = self.jobs[name]
        while not jobs.empty():
            jobs.get()()
        self.log.put(("ran", name))
        return 0.0, False

    def between(self) -> None:
        assert threading.current_thread() is self.thread
        self.log.put(("between", ""))

    def give(self, name: str, job: Callable[[], object] = lambda: None) -> None:
        self.jobs[name].put(job)
        self.client.ready(name)

    def did(self) -> tuple[str, str]:
        return self.log.get(timeout=HUNG_S)

    def stop(self) -> None:
        self.client.stop()
        self.thread.join()


@dataclass
class Hold:
    """Job that ends once `may_end` is set."""

    begun: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.begun.set()
        self.may_end.wait(HUNG_S)


MakeWorker = Callable[..., Worker]


@pytest.fixture
def make_worker(path: Path) -> Iterator[MakeWorker]:
    made: list[Worker] = []

    def make(*names: str) -> Worker:
        made.append(Worker(path, names or ("gold",)))
        return made[-1]

    yield make
    for worker in made:
        worker.stop()


def test_a_host_calls_its_function_for_work_between_slices_after_each_slice(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    make_node()
    worker = make_worker()
    for _ in range(3):
        worker.give("gold")
        assert [worker.did(), worker.did()] == [("ran", "gold"), ("between", "")]


def test_input_that_arrives_during_a_slice_is_processed_in_another_slice(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    make_node()
    worker = make_worker()
    hold, done = Hold(), threading.Event()
    worker.give("gold", hold)
    hold.begun.wait(HUNG_S)
    worker.client.ready("gold")
    worker.jobs["gold"].put(done.set)
    hold.may_end.set()
    assert done.wait(HUNG_S)
    assert [worker.did() for _ in range(4)] == [("ran", "gold"), ("between", "")] * 2


def test_input_given_by_several_threads_at_once_is_all_processed(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    make_node(lanes=2)
    worker, done = make_worker(*SHARES), threading.Event()
    each, finished = 2000, count(1)

    def job() -> None:
        if next(finished) == each * len(SHARES):
            done.set()

    def feed(name: str) -> None:
        for _ in range(each):
            worker.give(name, job)

    feeders = [threading.Thread(target=feed, args=(name,)) for name in SHARES]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    assert done.wait(HUNG_S)


def test_all_classes_get_turns_when_their_messages_overfill_the_socket(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    names = tuple(f"c{number}" for number in range(3000))
    node = make_node(shared=False)
    node.share(**dict.fromkeys(names, 1 / len(names)))
    worker = make_worker(*names)
    for _ in range(2):
        for name in names:
            worker.client.ready(name)
        to_run = set(names)
        while to_run:
            to_run.discard(worker.did()[1])


def test_a_host_reconnects_when_its_dispatcher_reads_nothing(path: Path, make_worker: MakeWorker) -> None:
    listener = Listener(path)
    names = tuple(f"c{number}" for number in range(3000))
    worker = make_worker(*names)
    hung = accepted(listener)
    for name in names:
        worker.client.ready(name)
    again = Peer(accepted(listener))
    assert again.heard() == Hello("host", names[:CLASSES_A_HELLO])
    worker.client.wake()
    while worker.did() != ("between", ""):
        pass
    again.channel.close()
    hung.close()
    listener.close()


def test_a_host_without_a_dispatcher_still_does_its_work_between_slices(make_worker: MakeWorker) -> None:
    worker = make_worker()
    for _ in range(3):
        worker.client.wake()
        assert worker.did() == ("between", "")


def test_waking_a_host_runs_its_work_between_slices_without_a_slice(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    node = make_node()
    worker = make_worker()
    worker.give("gold")
    assert [worker.did(), worker.did()] == [("ran", "gold"), ("between", "")]
    worker.client.wake()
    assert worker.did() == ("between", "")
    assert node.settle().lanes[0].slices == 1


@pytest.mark.parametrize("dispatcher", [True, False])
def test_a_host_does_its_work_between_slices_at_the_moment_when_the_work_is_due(
    path: Path, make_node: MakeNode, dispatcher: bool
) -> None:
    if dispatcher:
        make_node()
    due, done = time.monotonic() + 0.03, threading.Event()
    at: list[float] = []

    def between() -> None:
        if time.monotonic() >= due:
            at.append(time.monotonic())
            done.set()

    def quiet_s() -> float | None:
        return None if at else due - time.monotonic()

    client = SliceClient(path, "host", lambda *_: (0.0, False), between, classes=("gold",), quiet_s=quiet_s)
    thread = threading.Thread(target=client.serve)
    thread.start()
    assert done.wait(HUNG_S)
    client.stop()
    thread.join()
    assert len(at) == 1


def test_a_host_reports_its_waiting_classes_to_a_new_dispatcher(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    first = make_node()
    worker = make_worker("gold", "silver")
    hold = Hold()
    worker.give("gold", hold)
    hold.begun.wait(HUNG_S)
    worker.give("silver")
    first.stop()
    make_node()
    worker.give("gold")  # The slice that the first dispatcher granted still runs.
    hold.may_end.set()
    ran = [name for what, name in (worker.did() for _ in range(5)) if what == "ran"]
    assert ran[0] == "gold"
    assert set(ran) == {"gold", "silver"}


def test_a_class_runs_on_a_host_after_joining_the_host_and_not_after_leaving_the_host(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    node = make_node()
    worker = make_worker("gold")
    worker.jobs["silver"] = SimpleQueue()
    worker.client.join("silver")
    worker.give("silver")
    assert worker.did() == ("ran", "silver")
    worker.client.leave("silver")
    worker.client.leave("silver")
    worker.client.ready("silver")
    assert node.settle().hosts == {"host": ("gold",)}
    worker.give("gold")
    assert [worker.did(), worker.did()] == [("between", ""), ("ran", "gold")]


def test_a_class_that_leaves_during_its_slice_is_removed_from_its_host(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    node = make_node()
    worker = make_worker("gold", "silver")
    worker.give("gold", lambda: worker.client.leave("gold"))
    worker.give("silver")
    assert {worker.did()[1] for _ in range(3)} == {"gold", "", "silver"}
    assert node.settle().hosts == {"host": ("silver",)}


def test_a_class_that_leaves_and_rejoins_during_its_slice_keeps_its_backlog(
    path: Path, make_worker: MakeWorker
) -> None:
    listener = Listener(path)
    worker = make_worker()
    dispatcher = Peer(accepted(listener))

    def come_back() -> None:
        worker.client.leave("gold")
        worker.client.join("gold")
        worker.client.ready("gold")

    worker.give("gold", come_back)
    dispatcher.say(Granted("gold", 0, 1.0))
    while not isinstance(message := dispatcher.heard(), Ended):
        assert message is not None
    assert message.backlog
    dispatcher.channel.close()
    listener.close()


def test_a_grant_to_a_class_that_has_left_its_host_is_returned_unused(
    path: Path, make_worker: MakeWorker
) -> None:
    listener = Listener(path)
    worker = make_worker()
    dispatcher = Peer(accepted(listener))
    assert dispatcher.heard() == Hello("host", ("gold",))
    dispatcher.say(Granted("other", 3, 1.0))
    assert dispatcher.heard() == Ended("other", 3, 0.0, 0.0, backlog=False)
    worker.client.ready("gold")
    assert dispatcher.heard() == Ready("gold")
    dispatcher.channel.close()
    dispatcher = Peer(accepted(listener))
    assert [dispatcher.heard(), dispatcher.heard()] == [Hello("host", ("gold",)), Ready("gold")]
    dispatcher.channel.close()
    listener.close()


def test_a_refused_host_keeps_the_reason_and_does_not_reconnect(path: Path, make_worker: MakeWorker) -> None:
    listener = Listener(path)
    worker = make_worker()
    dispatcher = Peer(accepted(listener))
    dispatcher.say(RefusedHost("version 1 of the turn messages, not 2"))
    worker.thread.join()
    assert str(worker.problem) == "version 1 of the turn messages, not 2"
    dispatcher.channel.close()
    listener.close()
