"""The hosts' end of the dispatcher's loop: a host around `SliceClient`, with a real loop or a dispatcher it speaks to."""

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
    """A host whose classes have a queue of jobs each; a slice does all that are there."""

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
    """A job that goes on when it is told."""

    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.begun.set()
        self.go_on.wait(HUNG_S)


MakeWorker = Callable[..., Worker]


@pytest.fixture
def make_worker(path: Path) -> Iterator[MakeWorker]:
    made: list[Worker] = []

    def make(*names: str) -> Worker:
        made.append(Worker(path, names or ("gold",)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_input_gets_a_slice_and_then_there_is_time_for_the_rest(
    make_node: MakeNode, make_worker: MakeWorker
) -> None:
    make_node()
    worker = make_worker()
    for _ in range(3):
        worker.give("gold")
        assert [worker.did(), worker.did()] == [("ran", "gold"), ("between", "")]


def test_input_during_a_slice_gets_another(make_node: MakeNode, make_worker: MakeWorker) -> None:
    make_node()
    worker = make_worker()
    hold, done = Hold(), threading.Event()
    worker.give("gold", hold)
    hold.begun.wait(HUNG_S)
    worker.client.ready("gold")
    worker.jobs["gold"].put(done.set)
    hold.go_on.set()
    assert done.wait(HUNG_S)
    assert [worker.did() for _ in range(4)] == [("ran", "gold"), ("between", "")] * 2


def test_no_input_is_left_lying_however_threads_and_slices_interleave(
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
    for one in feeders:
        one.start()
    for one in feeders:
        one.join()
    assert done.wait(HUNG_S)


def test_more_classes_than_a_socket_holds_messages_get_their_turns(
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


def test_a_dispatcher_that_reads_nothing_is_given_up(path: Path, make_worker: MakeWorker) -> None:
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


def test_the_rest_is_done_also_while_there_is_no_dispatcher(make_worker: MakeWorker) -> None:
    worker = make_worker()
    for _ in range(3):
        worker.client.wake()
        assert worker.did() == ("between", "")


def test_the_rest_is_done_when_woken(make_node: MakeNode, make_worker: MakeWorker) -> None:
    node = make_node()
    worker = make_worker()
    worker.give("gold")
    assert [worker.did(), worker.did()] == [("ran", "gold"), ("between", "")]
    worker.client.wake()
    assert worker.did() == ("between", "")
    assert node.settle().lanes[0].slices == 1


@pytest.mark.parametrize("dispatcher", [True, False])
def test_what_is_due_is_done_at_its_time(path: Path, make_node: MakeNode, dispatcher: bool) -> None:
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


def test_a_host_comes_back_to_a_new_dispatcher_with_what_waits(
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
    worker.give("gold")  # during the slice that the first dispatcher granted
    hold.go_on.set()
    ran = [name for what, name in (worker.did() for _ in range(5)) if what == "ran"]
    assert ran[0] == "gold"
    assert set(ran) == {"gold", "silver"}


def test_classes_join_and_leave_a_host(make_node: MakeNode, make_worker: MakeWorker) -> None:
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


def test_a_class_may_leave_during_its_slice(make_node: MakeNode, make_worker: MakeWorker) -> None:
    node = make_node()
    worker = make_worker("gold", "silver")
    worker.give("gold", lambda: worker.client.leave("gold"))
    worker.give("silver")
    assert {worker.did()[1] for _ in range(3)} == {"gold", "", "silver"}
    assert node.settle().hosts == {"host": ("silver",)}


def test_a_class_that_leaves_and_comes_back_during_its_slice_waits_if_it_has_input(
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


def test_a_grant_to_a_class_that_has_left_is_given_back(path: Path, make_worker: MakeWorker) -> None:
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


def test_a_host_that_is_refused_says_why_and_does_not_try_again(path: Path, make_worker: MakeWorker) -> None:
    listener = Listener(path)
    worker = make_worker()
    dispatcher = Peer(accepted(listener))
    dispatcher.say(RefusedHost("version 1 of the turn messages, not 2"))
    worker.thread.join()
    assert str(worker.problem) == "version 1 of the turn messages, not 2"
    dispatcher.channel.close()
    listener.close()
