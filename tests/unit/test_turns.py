"""The dispatcher's loop and the hosts' end of it, in threads and processes, over real sockets.

A `Peer` is a host that a test speaks for, message by message; `Worker` is a host around `SliceClient`.
"""

import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest

from actors.channel import Channel, Listener, connect
from actors.slices import RefusedByDispatcher, SliceClient
from actors.turn_messages import (
    CLASSES_A_HELLO,
    VERSION,
    Ended,
    Granted,
    Hello,
    Left,
    Message,
    Ready,
    Refused,
    decode,
    encode,
)
from actors.turns import TurnLoop, TurnStatus
from scheduler.wrr import Grant, RoundRobin, TurnEvent

SHARES = {"gold": 0.5, "silver": 0.25, "bronze": 0.25}
# Long enough that a slice is never overdue here, unless the test is about that.
ROUND_S = 10.0
# Not how long anything should take: a test that waits for what never comes fails instead of hanging.
HUNG_S = 60.0

Decision = tuple[TurnEvent, float, tuple[Grant, ...]]


@dataclass
class Node:
    """A loop in a thread, and what it has recorded."""

    path: Path
    round_s: float = ROUND_S
    lanes: int = 1
    recorded: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = TurnLoop(self.path, self.round_s, self.lanes, self.record)
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def record(self, core: str, event: TurnEvent, now: float, grants: tuple[Grant, ...]) -> None:
        assert core == "turns"
        self.recorded.append((event, now, grants))

    def share(self, *names: str, **shares: float) -> None:
        """Each class in a host of its own."""
        self.loop.set_shares({name: SHARES[name] for name in names} | shares, {})
        self.settle()

    def settle(self) -> TurnStatus:
        """All that was sent before has been heard: each answer is from a pass that hears one message of each host."""
        for _ in range(5):
            self.loop.status()
        return self.loop.status()

    def stop(self) -> None:
        self.loop.stop()
        self.thread.join()


@dataclass
class Peer:
    """A host as the dispatcher sees it."""

    channel: Channel

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.channel.send(encode(message))

    def heard(self) -> Message | None:
        assert select.select([self.channel], [], [], HUNG_S)[0], "nothing was said"
        packet = self.channel.receive()
        return None if packet is None else decode(packet)

    def hears_nothing(self) -> bool:
        return not select.select([self.channel], [], [], 0)[0]


MakeNode = Callable[..., Node]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "dispatcher.sock"


@pytest.fixture
def make_node(path: Path) -> Iterator[MakeNode]:
    made: list[Node] = []

    def make(round_s: float = ROUND_S, lanes: int = 1, shared: bool = True) -> Node:
        made.append(Node(path, round_s, lanes))
        if shared:
            made[-1].share(*SHARES)
        return made[-1]

    yield make
    for one in made:
        one.stop()


def peer(node: Node, *classes: str, ready: bool = True) -> Peer:
    """A host that has said hello, and that its classes have input."""
    one = Peer(connect(node.path))
    one.say(Hello(f"host-{classes[0]}", classes), *(Ready(name) for name in classes if ready))
    node.settle()
    return one


def ended(name: str, used_s: float = 0.0, backlog: bool = True, lane: int = 0) -> Ended:
    return Ended(name, lane, used_s, used_s, backlog)


# -- turns ------------------------------------------------------------------------------------------


def test_a_class_with_input_is_granted_its_quota_at_once(make_node: MakeNode) -> None:
    assert peer(make_node(), "gold").heard() == Granted("gold", 0, 5.0)


def test_hosts_take_turns_each_for_its_share(make_node: MakeNode) -> None:
    node = make_node()
    hosts = {name: peer(node, name) for name in SHARES}
    for name in [*SHARES] * 3:
        quota_s = SHARES[name] * ROUND_S
        assert hosts[name].heard() == Granted(name, 0, quota_s)
        assert all(one.hears_nothing() for one in hosts.values())
        hosts[name].say(ended(name, quota_s))


def test_every_lane_is_given_out(make_node: MakeNode) -> None:
    node = make_node(lanes=2)
    gold, silver, bronze = (peer(node, name) for name in SHARES)
    assert gold.heard() == Granted("gold", 0, 10.0)
    assert silver.heard() == Granted("silver", 1, 5.0)
    silver.say(ended("silver", lane=1))
    assert bronze.heard() == Granted("bronze", 1, 5.0)


def test_a_host_runs_one_class_at_a_time_however_many_lanes_are_free(make_node: MakeNode) -> None:
    node = make_node(lanes=2)
    node.loop.set_shares(SHARES, dict.fromkeys(SHARES, "host-gold"))
    host = peer(node, *SHARES)
    for name in SHARES:
        assert host.heard() == Granted(name, 0, 2 * SHARES[name] * ROUND_S)
        assert host.hears_nothing()
        host.say(ended(name, backlog=False))
        node.settle()


def test_input_that_came_before_the_shares_is_remembered(make_node: MakeNode) -> None:
    node = make_node(shared=False)
    gold, silver = peer(node, "gold"), peer(node, "silver")
    assert gold.hears_nothing()
    node.share("silver")
    assert silver.heard() == Granted("silver", 0, 2.5)
    node.share("gold", "silver")
    silver.say(ended("silver", 2.5))
    assert gold.heard() == Granted("gold", 0, 5.0)


def test_a_class_that_waits_keeps_waiting_while_it_has_no_share(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    node.share("gold")
    assert gold.heard() == Granted("gold", 0, 5.0)
    gold.say(ended("gold", backlog=False))
    node.settle()
    assert silver.hears_nothing()
    node.share("gold", "silver")
    assert silver.heard() == Granted("silver", 0, 2.5)


def test_a_class_that_left_gets_no_turn(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver, bronze = (peer(node, name) for name in SHARES)
    silver.say(Left("silver"))
    node.settle()
    gold.say(ended("gold", 5.0))
    assert bronze.heard() == Granted("bronze", 0, 2.5)
    assert silver.hears_nothing()


def test_a_class_that_left_during_its_slice_still_gives_the_lane_back(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    gold.say(Left("gold"))
    node.settle()
    assert silver.hears_nothing()
    gold.say(ended("gold"))
    assert silver.heard() == Granted("silver", 0, 2.5)


def test_what_is_recorded_replays_to_the_same_decisions(make_node: MakeNode) -> None:
    node = make_node(lanes=2, shared=False)
    hosts = {name: peer(node, name) for name in SHARES}
    node.share(*SHARES)
    for name in (*SHARES, *SHARES):
        granted = hosts[name].heard()
        assert isinstance(granted, Granted)
        hosts[name].say(ended(name, 3.0, lane=granted.lane))
    hosts["gold"].channel.close()
    node.settle()
    node.stop()
    again = RoundRobin({}, ROUND_S, lanes=2)
    assert [again.handle(event, now) for event, now, _ in node.recorded] == [
        grants for _, _, grants in node.recorded
    ]


# -- hosts that die, change or misbehave --------------------------------------------------------------


def test_the_end_of_a_host_ends_its_slice(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    assert gold.heard() == Granted("gold", 0, 5.0)
    gold.channel.close()
    assert silver.heard() == Granted("silver", 0, 2.5)
    assert node.settle().hosts == {"host-silver": ("silver",)}


def test_the_end_of_a_host_takes_its_classes_out_of_the_round(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver, bronze = (peer(node, name) for name in SHARES)
    silver.channel.close()
    node.settle()
    gold.say(ended("gold", 5.0))
    assert bronze.heard() == Granted("bronze", 0, 2.5)


def test_a_host_that_comes_back_gets_turns_again(make_node: MakeNode) -> None:
    node = make_node()
    gold = peer(node, "gold")
    gold.channel.close()
    node.settle()
    assert isinstance(peer(node, "gold").heard(), Granted)


def test_a_killed_process_gives_its_lane_back(make_node: MakeNode) -> None:
    node = make_node()
    code = (
        "import sys; from pathlib import Path; from actors.slices import SliceClient\n"
        "run = lambda name, quota_s: (print('runs', flush=True), sys.stdin.read())\n"
        "client = SliceClient(Path(sys.argv[1]), 'host', run, lambda: None, classes=['gold'])\n"
        "client.ready('gold'); client.serve()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, node.path],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        silver = peer(node, "silver")
        assert silver.hears_nothing()
        process.kill()
        assert silver.heard() == Granted("silver", 0, 2.5)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"?", "shorter than any message"),
        (bytes([VERSION, 99]), "no message has kind 99"),
        (bytes([VERSION + 1]) + encode(Ready("gold"))[1:], f"version {VERSION + 1} of the turn messages"),
        (encode(ended("gold"))[:5], "malformed message"),
        (encode(Ready("no name")), "no name"),
        (encode(Granted("gold", 0, 1.0)), "only a dispatcher says that"),
        (encode(Refused("no")), "only a dispatcher says that"),
    ],
)
def test_who_is_not_understood_is_told_why_and_harms_nobody(
    make_node: MakeNode, packet: bytes, reason: str
) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    assert gold.heard() == Granted("gold", 0, 5.0)
    gold.channel.send(packet)
    gold.say(Ready("gold"), Hello("host-gold", ("gold",)), Ready("gold"))
    refused = gold.heard()
    assert isinstance(refused, Refused)
    assert reason in refused.reason
    assert silver.heard() == Granted("silver", 0, 2.5)
    status = node.settle()
    assert (status.refused_count, status.stray_count) == (1, 0)
    assert status.hosts == {"host-silver": ("silver",)}
    gold.channel.close()


def test_messages_about_what_is_not_the_senders_are_counted_and_change_nothing(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver", ready=False)
    assert gold.heard() == Granted("gold", 0, 5.0)
    for stray in (ended("gold"), ended("silver"), ended("gold", lane=7), Ready("gold"), Left("gold")):
        silver.say(stray)
    assert node.settle().stray_count == 5
    gold.say(ended("gold"))
    assert gold.heard() == Granted("gold", 0, 5.0)


def test_a_class_belongs_to_the_host_that_named_it_last(make_node: MakeNode) -> None:
    node = make_node()
    old = peer(node, "gold")
    assert old.heard() == Granted("gold", 0, 5.0)
    new = peer(node, "gold")
    assert new.hears_nothing()  # one slice of a class at a time
    old.say(ended("gold", backlog=False))
    assert new.heard() == Granted("gold", 0, 5.0)
    old.say(Ready("gold"))
    assert node.settle().stray_count == 1


def test_a_class_taken_over_that_leaves_again_does_not_end_the_slice_of_its_old_host(
    make_node: MakeNode,
) -> None:
    node = make_node()
    old, silver = peer(node, "gold"), peer(node, "silver")
    peer(node, "gold").channel.close()
    node.settle()
    assert silver.hears_nothing()
    old.say(ended("gold"))
    assert silver.heard() == Granted("silver", 0, 2.5)


def test_a_host_that_dies_after_its_class_was_taken_over_leaves_no_input_behind(make_node: MakeNode) -> None:
    node = make_node()
    old = peer(node, "gold")
    new = peer(node, "gold")
    old.channel.close()
    assert isinstance(new.heard(), Granted)


def test_a_slice_that_lasts_too_long_frees_the_lane_and_its_host_waits(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold", "bronze"), peer(node, "silver", ready=False)
    assert hung.heard() == Granted("gold", 0, 0.0005)
    silver.say(Ready("silver"))
    assert isinstance(silver.heard(), Granted)
    status = node.settle()
    assert (status.overdue, status.overdue_count) == (("gold",), 1)
    silver.say(ended("silver", backlog=False))
    node.settle()
    assert hung.hears_nothing()  # bronze waits, but its host is not done with gold
    hung.say(ended("gold", backlog=False))
    assert hung.heard() == Granted("bronze", 0, 0.00025)
    assert node.settle().overdue == ()


def test_an_overdue_host_whose_late_answer_tells_of_backlog_gets_turns_again(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold"), peer(node, "silver")
    assert isinstance(hung.heard(), Granted)
    assert isinstance(silver.heard(), Granted)
    silver.say(ended("silver", backlog=False))
    hung.say(ended("gold"))
    assert isinstance(hung.heard(), Granted)


def test_a_late_answer_says_nothing_of_a_class_that_another_host_has_taken_over(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold"), peer(node, "silver")
    assert isinstance(hung.heard(), Granted)
    assert isinstance(silver.heard(), Granted)
    silver.say(ended("silver", backlog=False))
    new = peer(node, "gold", ready=False)
    hung.say(ended("gold", backlog=True))
    assert node.settle().overdue == ()
    assert new.hears_nothing()


def test_an_overdue_host_that_dies_is_free_to_come_back(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold"), peer(node, "silver")
    assert isinstance(silver.heard(), Granted)
    hung.channel.close()
    again = peer(node, "gold")
    silver.say(ended("silver", backlog=False))
    assert isinstance(again.heard(), Granted)


# -- what is told of it -------------------------------------------------------------------------------


def test_status_tells_what_slices_took_and_what_runs(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    gold.say(Ended("gold", 0, used_s=0.25, ran_s=0.5, backlog=True))
    assert isinstance(silver.heard(), Granted)
    status = node.settle()
    (lane,) = status.lanes
    assert (lane.running, lane.slices, lane.used_s, lane.in_slices_s) == ("silver", 1, 0.25, 0.5)
    assert lane.busy_s > 0
    assert lane.idle_s > 0
    assert status.rounds == 1
    assert status.hosts == {"host-gold": ("gold",), "host-silver": ("silver",)}
    assert status.not_pinned == "not asked for"


def test_a_stopped_loop_is_the_end_of_its_channels_and_its_socket(make_node: MakeNode) -> None:
    node = make_node()
    gold = peer(node, "gold", ready=False)
    node.stop()
    node.stop()
    assert gold.heard() is None
    assert not node.path.exists()
    with pytest.raises(TimeoutError):
        node.loop.status(wait_s=0)


# -- the hosts' end -----------------------------------------------------------------------------------


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


@pytest.fixture
def make_worker(path: Path) -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(*names: str) -> Worker:
        made.append(Worker(path, names or ("gold",)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


MakeWorker = Callable[..., Worker]


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


def accepted(listener: Listener) -> Channel:
    assert select.select([listener], [], [], HUNG_S)[0], "nobody came"
    channel = listener.accept()
    assert channel is not None
    return channel


def test_a_host_that_is_refused_says_why_and_does_not_try_again(path: Path, make_worker: MakeWorker) -> None:
    listener = Listener(path)
    worker = make_worker()
    dispatcher = Peer(accepted(listener))
    dispatcher.say(Refused("version 1 of the turn messages, not 2"))
    worker.thread.join()
    assert str(worker.problem) == "version 1 of the turn messages, not 2"
    dispatcher.channel.close()
    listener.close()
