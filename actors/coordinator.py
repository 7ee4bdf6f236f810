"""The coordinator of a system as a Ray actor: a thread around `actors.control.ControlPlane`, one in the cluster.

    observe     calls of users and hosts, answers of other actors, nodes that come and go
    decide      the control plane
    enact       calls to hosts, dispatchers and gateways that nobody waits for, after they are written to the store
    record      the cores' decisions, if there is a folder for events

Guarantees:
1. When `apply` and the like return, what they asked for is in the store and on its way; when they raise InvalidInput,
   nothing has changed.
2. A coordinator that was killed is started anew by Ray, finds everything in the store and goes on. Until then hosts and
   dispatchers go on with what they have; what hosts report meanwhile is lost.
3. An actor that does not answer is not called until its `ping` answers; then it is told everything again. So is one that
   Ray has started anew (its process is another). An actor that is gone is made again.
4. `ping` and `status` answer whatever the control thread does. Every other call is answered within `ANSWER_S`.
   Every call but `add_query` and `remove_query` may be repeated.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import dispatcher, gateway, state
from actors.control import ControlPlane, OpenRecord, Part, Stream, SystemStatus
from actors.dirs import RunDirs
from actors.dispatcher import DispatcherSettings, NodeShares
from actors.eventlog import LogWriter, machine_clock
from actors.gateway import GatewaySettings, copies_reader
from actors.lanes import Cores
from actors.names import (
    COORDINATOR,
    NAMESPACE,
    declared_key,
    dispatcher_key,
    dispatcher_name,
    find,
    gateway_name,
    host_key,
    host_name,
    shares_key,
)
from actors.turns import Record as TurnRecord
from actors.units import Copy, Unit, UnitReport, units_to_json
from configs.live import LiveClass, LiveSettings
from configs.problems import WeirError
from loadshed.records import Core, CoreName, header_of
from scheduler.capacity import ShareMove
from scheduler.wrr import RoundRobin

# How long a caller waits for the control thread, or for a host's answer that is passed on.
ANSWER_S = 30.0
# An actor's death costs its classes turns or results, so it is looked for every so often; a ping takes 0.3 ms of processor time.
WATCH_S = 2.0
WATCH_AGAIN_S = 0.25  # while somebody is quarantined
# Far more than hosts report in the time that a node takes to start.
WORK_MAX = 10_000
FAILURES_KEPT = 100
# To stop: what an actor has for it. After this it is killed, which loses nothing that is in a log.
STOP_S = 2.0
# A move of a unit: for its log to come over.
MOVE_S = 60.0

Answer = TypeVar("Answer")
# Makes a host on a node (by Ray's id), or finds it.
StartHost = Callable[[str, str, RunDirs, LiveSettings, Cores | None, Path | None], Any]


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """What a system is started with."""

    live: LiveSettings
    start_host: StartHost
    base: Path
    system: str
    cores: Cores | None = None
    """Which cores are lanes, where the starter has reserved them; None: each node's dispatcher sees to it."""
    data_folder: Path | None = None
    """Where the records of all decisions go; None: nowhere."""
    events_bytes: int = 256 << 20

    def dirs(self, node: str) -> RunDirs:
        return RunDirs(self.base, self.system, node)

    @property
    def events(self) -> Path | None:
        return None if self.data_folder is None else self.data_folder / "events" / self.system

    def log_writer(self) -> LogWriter | None:
        return None if self.events is None else LogWriter(self.events, self.events_bytes)


@dataclass(frozen=True, slots=True)
class CoordinatorStatus:
    pid: int
    at: float
    """When this was so, by the clock of the coordinator's node."""
    system: SystemStatus
    waited_for: tuple[str, ...]
    """Actors that have not answered since they were made."""
    quarantined: tuple[str, ...]
    """Actors that do not answer any more."""
    failures: tuple[str, ...]
    """The last calls that failed."""
    reports_lost: int


@dataclass(slots=True)
class Peer:
    """Another actor, as far as the coordinator knows it."""

    handle: Any = None
    pid: int | None = None
    quarantined: bool = False
    pinged: bool = False
    """A ping is under way."""


class Coordinator:
    """Made by `start`. Its constructor starts the control thread: after a crash, Ray calls nothing else."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._control = ControlThread(settings)
        self._control.start()

    @ray.method(concurrency_group="health")
    def ping(self) -> int:
        """The process that answers."""
        return os.getpid()

    @ray.method(concurrency_group="health")
    def status(self) -> CoordinatorStatus:
        """As of now, or as of the last time the control thread could say."""
        return self._control.status()

    @ray.method(concurrency_group="reports")
    def report(self, host: str, reports: Sequence[UnitReport]) -> None:
        self._control.report(host, reports)

    def apply(self, classes: Sequence[LiveClass]) -> None:
        """Add classes, or change those of the same names; all of them or none."""
        self._control.ask(lambda plane, now: plane.apply(classes, now))

    def remove_class(self, name: str) -> None:
        self._control.ask(lambda plane, now: plane.remove_class(name, now))

    def add_query(self, class_name: str, name: str, sql: str) -> None:
        self._control.ask(lambda plane, now: plane.add_query(class_name, name, sql, now))

    def remove_query(self, class_name: str, name: str) -> None:
        self._control.ask(lambda plane, now: plane.remove_query(class_name, name, now))

    def lending(self) -> dict[str, dict[str, float]]:
        """lender → borrower → processor-seconds."""
        return self._control.ask(lambda plane, now: plane.lending(now))

    def share_moves(self) -> list[ShareMove]:
        """The last moves of shares on all nodes, oldest first."""
        return self._control.ask(lambda plane, _: plane.share_moves(plane.nodes))

    def explain(self, class_name: str, last: int = 10) -> dict[str, list[str]]:
        """The last decisions in words: of each unit's load manager, and about shares."""
        hosts = self._control.ask(lambda plane, _: plane.units_of(class_name))
        told: dict[str, list[str]] = {
            unit: ray.get(find(host_name(host)).explain.remote(unit, last), timeout=ANSWER_S)
            for unit, host in hosts.items()
        }
        return told | {"shares": self._control.ask(lambda plane, _: plane.moves(class_name, last))}

    def plan(self, class_name: str) -> Any:
        """The class's operators with what was measured of them, in its first unit."""
        hosts = self._control.ask(lambda plane, _: plane.units_of(class_name))
        unit, host = next(iter(hosts.items()))
        return ray.get(find(host_name(host)).plan.remote(unit), timeout=ANSWER_S)

    def move(self, unit: str, node: str) -> None:
        """Begin to move a unit to another node."""
        self._control.ask(lambda plane, _: plane.move(unit, node))

    def stop(self) -> None:
        """Everything but the coordinator ends, hosts first; shared memory is given back."""
        self._control.stop()


class ControlThread:
    """Owns the control plane; what others want of it goes through a queue."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._settings = settings
        self._work: queue.Queue[Callable[[], None]] = queue.Queue(WORK_MAX)
        self._writer = settings.log_writer()
        self._open_record: OpenRecord | None = self._opened if self._writer is not None else None
        self._calls = Calls(self._settings, self._post)
        self._calls.plane = self._plane = ControlPlane(settings.live, self._calls, self._open_record)
        self._reports_lost = 0
        self._stopping = False
        self._last: CoordinatorStatus | None = None
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    # -- for other threads ------------------------------------------------------------------------------

    def ask(self, work: Callable[[ControlPlane, float], Answer]) -> Answer:
        """TimeoutError if the control thread does not come to it in time; it is not done then."""
        answer: Future[Answer] = Future()

        def do() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work(self._plane, time.monotonic()))
                except BaseException as problem:
                    answer.set_exception(problem)
                    if not isinstance(problem, WeirError):
                        raise

        try:
            self._work.put(do, timeout=ANSWER_S)
            return answer.result(ANSWER_S)
        except (TimeoutError, queue.Full):
            answer.cancel()
            raise TimeoutError(f"the coordinator has been busy for {ANSWER_S:g} s; try again") from None

    def report(self, host: str, reports: Sequence[UnitReport]) -> None:
        try:
            self._work.put_nowait(lambda: self._plane.report(host, reports, time.monotonic()))
        except queue.Full:
            self._reports_lost += 1

    def status(self) -> CoordinatorStatus:
        done = threading.Event()

        def look() -> None:
            self._last = self._look()
            done.set()

        try:
            self._work.put_nowait(look)
            done.wait(1.0 if self._last is not None else ANSWER_S)
        except queue.Full:
            pass
        if self._last is None:
            raise TimeoutError("the coordinator is still finding out what there is; try again")
        return self._last

    def stop(self) -> None:
        self._stopping = True
        self._post(lambda: None)
        self._thread.join(STOP_S)
        self._calls.stop_all(self._plane.hosts, self._plane.nodes)
        if self._writer is not None:
            self._writer.close()

    def _post(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    # -- the control thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._begin()
            self._loop()
        except BaseException:
            # What is in the store is right; a new process begins from there.
            traceback.print_exc()
            os._exit(1)

    def _begin(self) -> None:
        lanes = self._calls.look_at_nodes()
        declared = state.get(declared_key())
        if declared is not None:
            self._plane.restore(declared, state.get(shares_key()), lanes, time.monotonic())
        self._calls.watch()
        self._calls.stop_strangers()

    def _loop(self) -> None:
        """The main loop: observe, decide, enact, record."""
        now = time.monotonic()
        watch_at, redistribute_at = now + WATCH_S, now + self._plane.redistribution_s
        while not self._stopping:
            due = min(watch_at, redistribute_at) if self._plane.is_awake else watch_at
            self._take(due - time.monotonic())
            now = time.monotonic()
            if now >= redistribute_at:
                # An idle system has no such cycles; the first report begins one.
                if self._plane.is_awake:
                    self._plane.redistribute(now)
                redistribute_at = now + self._plane.redistribution_s
            if now >= watch_at:
                self._calls.watch()
                self._plane.relieve()
                watch_at = time.monotonic() + (WATCH_AGAIN_S if self._calls.quarantined else WATCH_S)

    def _take(self, wait_s: float) -> None:
        try:
            work = self._work.get(timeout=max(wait_s, 0.0))
        except queue.Empty:
            return
        work()

    def _look(self) -> CoordinatorStatus:
        return CoordinatorStatus(
            os.getpid(),
            time.monotonic(),
            self._plane.status(),
            self._calls.waited_for,
            self._calls.quarantined,
            tuple(self._calls.failures),
            self._reports_lost,
        )

    def _opened(self, kind: CoreName, name: str, core: Core) -> Callable[[Any, float, Sequence[Any]], None]:
        assert self._writer is not None
        return self._writer.open(header_of(kind, name, machine_clock(), core)).record


@dataclass
class Calls:
    """What the control plane asks for, as calls of other actors; by the control thread alone."""

    settings: CoordinatorSettings
    post: Callable[[Callable[[], None]], None]
    """Brings answers back to the control thread."""
    plane: ControlPlane = field(init=False)
    failures: deque[str] = field(init=False, default_factory=lambda: deque(maxlen=FAILURES_KEPT))
    _peers: dict[str, Peer] = field(init=False, default_factory=dict)
    _node_ids: dict[str, str] = field(init=False, default_factory=dict)
    _lanes: dict[str, int] = field(init=False, default_factory=dict)
    _streams: dict[str, Mapping[str, Stream]] = field(init=False, default_factory=dict)

    @property
    def waited_for(self) -> tuple[str, ...]:
        return tuple(name for name, peer in self._peers.items() if peer.pid is None)

    @property
    def quarantined(self) -> tuple[str, ...]:
        return tuple(name for name, peer in self._peers.items() if peer.quarantined)

    # -- what the control plane asks for ------------------------------------------------------------------

    def start_host(self, host: str, node: str) -> None:
        dirs = self.settings.dirs(node)
        settings = self.settings
        made = settings.start_host(
            host, self._node_ids[node], dirs, settings.live, settings.cores, settings.events
        )
        self._meet(host_name(host), made)

    def stop_host(self, host: str) -> None:
        name = host_name(host)
        state.delete(host_key(host))
        self._peers.pop(name, None)
        threading.Thread(target=end, args=([name],), daemon=True).start()

    def set_units(self, host: str, units: Sequence[Unit]) -> None:
        state.put(host_key(host), units_to_json(units))
        self._call(host_name(host), "set_units", list(units))

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None:
        self._call(host_name(host), "scale_headroom", unit, factor, share, original)

    def set_keep(self, host: str, unit: str, keep: float) -> None:
        self._call(host_name(host), "set_keep", unit, keep)

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        state.put(dispatcher_key(node), [shares, hosts])
        self._call(dispatcher_name(node), "set_shares", shares, hosts)

    def set_streams(self, node: str, streams: Mapping[str, Stream]) -> None:
        name, before = gateway_name(node), self._streams.get(node, {})
        for stream in [one for one in before if one not in streams]:
            self._call(name, "drop", stream)
        for stream, one in streams.items():
            if stream in before and before[stream].home != one.home:
                self._call(name, "drop", stream)
            if one.home == node:
                self._call(name, "declare", one.sql)
            else:
                self._call(name, "follow", one.home, stream)
        self._streams[node] = streams

    def set_copies(self, node: str, copies: Mapping[str, Copy]) -> None:
        self._call(gateway_name(node), "set_copies", dict(copies))

    def forget(self, node: str, unit: str) -> None:
        self._call(gateway_name(node), "forget_unit", unit)

    def move(self, unit: str, host: str, origin: str, node: str) -> None:
        threading.Thread(
            target=self._bring, args=(unit, host, origin, node), name="move", daemon=True
        ).start()

    def save(self, part: Part, value: Any) -> None:
        state.put(declared_key() if part == "declared" else shares_key(), value)

    # -- nodes and actors ---------------------------------------------------------------------------------

    def look_at_nodes(self) -> dict[str, int]:
        """The lanes of the nodes that are alive and give processors; new ones get a gateway and a dispatcher."""
        alive = {
            short_id(one["NodeID"]): one
            for one in nodes()
            if one["Alive"] and one["Resources"].get("CPU", 0) >= 1
        }
        gone, new = self._node_ids.keys() - alive.keys(), alive.keys() - self._node_ids.keys()
        self._node_ids = {node: one["NodeID"] for node, one in alive.items()}
        wanted = self.settings.live.lanes
        self._lanes = {node: min(wanted, int(one["Resources"]["CPU"])) for node, one in alive.items()}
        for node in gone:
            self._forget_node(node)
        for node in new:
            self._start_node(node)
        return self._lanes

    def watch(self) -> None:
        """Nodes that have come or gone, actors that do not answer or are others than they were."""
        self.plane.nodes_changed(self.look_at_nodes(), time.monotonic())
        for name, peer in list(self._peers.items()):
            self._ping(name, peer)

    def _start_node(self, node: str) -> None:
        settings = self.settings
        dirs, node_id = settings.dirs(node), self._node_ids[node]
        live, lanes = settings.live, self._lanes[node]
        made = gateway.start(node_id, GatewaySettings(dirs, live.retained_bytes, live.results_bytes))
        self._meet(gateway_name(node), made)
        turns = DispatcherSettings(dirs.dispatcher_socket, live.round_ms / 1e3, lanes, cores=settings.cores)
        recall = partial(recall_shares, node)
        recorder = None if settings.data_folder is None else partial(turn_recorder, settings, node, lanes)
        made = dispatcher.start(dispatcher_name(node), node_id, turns, recall, recorder)
        self._meet(dispatcher_name(node), made)

    def _meet(self, name: str, made: Any) -> None:
        peer = self._peers[name] = Peer(made)
        self._ping(name, peer)

    def _forget_node(self, node: str) -> None:
        self._streams.pop(node, None)
        state.delete(dispatcher_key(node))
        names = [gateway_name(node), dispatcher_name(node)]
        for name in names:
            self._peers.pop(name, None)
        # Its copies of streams would hold their producers back for ever.
        for other in self._node_ids:
            self._call(gateway_name(other), "forget_reader", copies_reader(node))
        threading.Thread(target=kill, args=(names,), daemon=True).start()

    def _ping(self, name: str, peer: Peer) -> None:
        if peer.pinged:
            return
        handle = self._handle(name, peer)
        if handle is None:
            self._make_again(name)
            return
        peer.pinged = True
        sent = handle.ping.remote().future()
        sent.add_done_callback(lambda answer: self.post(partial(self._pinged, name, peer, answer)))

    def _pinged(self, name: str, peer: Peer, answer: Future[int]) -> None:
        peer.pinged = False
        if self._peers.get(name) is not peer:
            return
        problem = answer.exception()
        if problem is not None:
            self._quarantine(name, peer, f"ping: {problem!r}")
            if isinstance(problem, ray.exceptions.ActorDiedError):
                self._make_again(name)
            return
        pid, before, was_quarantined = answer.result(), peer.pid, peer.quarantined
        peer.pid, peer.quarantined = pid, False
        if was_quarantined or before not in (None, pid):
            self._tell_again(name)

    def _make_again(self, name: str) -> None:
        """The actor is gone for good, as after a `ray kill`."""
        kind, _, rest = name.partition("-")
        del self._peers[name]
        if kind == "host" and rest in self.plane.hosts:
            self.start_host(rest, self.plane.hosts[rest])
        elif rest in self._node_ids:
            self._start_node(rest)
        self._tell_again(name)

    def _tell_again(self, name: str) -> None:
        kind, _, rest = name.partition("-")
        match kind:
            case "host":
                self.plane.host_restarted(rest)
            case "dispatcher":
                self.plane.dispatcher_restarted(rest)
            case "gateway":
                self._streams.pop(rest, None)
                self.plane.gateway_restarted(rest)

    # -- calls --------------------------------------------------------------------------------------------

    def _call(self, name: str, method: str, *arguments: Any) -> None:
        """Nobody waits for the answer. Who is quarantined is told everything later."""
        peer = self._peers.setdefault(name, Peer())
        handle = None if peer.quarantined else self._handle(name, peer)
        if handle is None:
            peer.quarantined = True
            return
        sent = getattr(handle, method).remote(*arguments).future()
        sent.add_done_callback(lambda answer: self._answered(name, peer, method, answer))

    def _answered(self, name: str, peer: Peer, method: str, answer: Future[Any]) -> None:
        """In a thread of Ray's."""
        problem = answer.exception()
        if problem is not None:
            self.post(partial(self._failed, name, peer, method, problem))

    def _failed(self, name: str, peer: Peer, method: str, problem: BaseException) -> None:
        if isinstance(problem, ray.exceptions.RayActorError):
            self._quarantine(name, peer, f"{method}: {problem!r}")
        else:
            self.failures.append(f"{name}.{method}: {problem}")

    def _quarantine(self, name: str, peer: Peer, why: str) -> None:
        if not peer.quarantined:
            peer.quarantined = True
            self.failures.append(f"{name} does not answer: {why}")

    def _handle(self, name: str, peer: Peer) -> Any:
        if peer.handle is None:
            try:
                peer.handle = find(name)
            except ValueError:
                return None
        return peer.handle

    # -- moving and ending --------------------------------------------------------------------------------

    def _bring(self, unit: str, host: str, origin: str, node: str) -> None:
        """In a thread of its own: bring the unit to rest, and its logs to the node."""
        plane, there = self.plane, gateway_name(node)
        try:
            following = ray.get(find(host_name(host)).drain.remote(unit), timeout=MOVE_S)
            to = find(there)
            ray.get(to.follow_class.remote(origin, unit), timeout=MOVE_S)
            if following:
                # Answered as soon as the copy holds the last frame.
                last = to.class_frames.remote(unit, following - 1, 1, "", MOVE_S)
                if not ray.get(last, timeout=2 * MOVE_S).frames:
                    raise TimeoutError(f"the log of {unit} did not come over within {MOVE_S:g} s")
            ray.get(to.unfollow_class.remote(unit), timeout=MOVE_S)
        except Exception as problem:
            self.failures.append(f"{unit} stays on node {origin}: {problem}")
            self.post(partial(plane.stayed, unit))
        else:
            self.post(lambda: plane.moved(unit, time.monotonic()))

    def stop_strangers(self) -> None:
        """Hosts that the store does not know: their coordinator was killed before it had ended them."""
        known = {host_name(host) for host in self.plane.hosts}
        strangers = [name for name in all_names() if name.startswith(host_name("")) and name not in known]
        threading.Thread(target=end, args=(strangers,), daemon=True).start()

    def stop_all(self, hosts: Mapping[str, str], nodes: Sequence[str]) -> None:
        """Hosts first, then what they use."""
        end([host_name(host) for host in hosts])
        end([dispatcher_name(node) for node in nodes])
        end([gateway_name(node) for node in nodes], True)
        for key in (*map(host_key, hosts), *map(dispatcher_key, nodes), declared_key(), shares_key()):
            state.delete(key)


def end(names: Sequence[str], *arguments: Any) -> None:
    """Ask actors to stop, all at once, then kill them."""
    asked = [found.stop.remote(*arguments) for found in map(found_or_none, names) if found is not None]
    if asked:
        ray.wait(asked, num_returns=len(asked), timeout=STOP_S)
    kill(names)


def kill(names: Sequence[str]) -> None:
    for found in map(found_or_none, names):
        if found is not None:
            ray.kill(found)


def all_names() -> list[str]:
    """The actors of the system that are alive."""
    found = ray.util.list_named_actors(all_namespaces=True)
    return [one["name"] for one in found if one["namespace"] == NAMESPACE]


def found_or_none(name: str) -> Any:
    try:
        return find(name)
    except ValueError:
        return None


def recall_shares(node: str) -> NodeShares | None:
    """What a dispatcher that begins anew finds."""
    found = state.get(dispatcher_key(node))
    return None if found is None else (found[0], found[1])


def turn_recorder(settings: CoordinatorSettings, node: str, lanes: int) -> TurnRecord:
    writer = settings.log_writer()
    assert writer is not None
    core = RoundRobin({}, settings.live.round_ms / 1e3, lanes)
    log = writer.open(header_of("turns", node, machine_clock(), core))
    return lambda _, event, now, grants: log.record(event, now, grants)


def short_id(node_id: str) -> str:
    """A node's name in sockets' paths, which must be short."""
    return node_id[:8]


def start(settings: CoordinatorSettings) -> Any:
    """The handle of the coordinator, which lives until it is killed; the one that is there, if there is one."""
    # Ray's types do not know concurrency groups.
    remote = cast(Any, ray.remote)
    groups = {"health": 2, "reports": 1}
    actor = remote(num_cpus=0, max_restarts=-1, max_concurrency=8, concurrency_groups=groups)(Coordinator)
    return actor.options(
        name=COORDINATOR,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        scheduling_strategy=head_node(),
    ).remote(settings)


def nodes() -> list[dict[str, Any]]:
    return cast(Any, ray).nodes()  # type: ignore[no-any-return]


def head_node() -> Any:
    """The node whose end is the cluster's end."""
    for one in nodes():
        if one["Alive"] and "node:__internal_head__" in one["Resources"]:
            return NodeAffinitySchedulingStrategy(one["NodeID"], soft=True)
    return "DEFAULT"
