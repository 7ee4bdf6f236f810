"""Effects of the control plane (`actors.coordinator.effects`) as calls of Ray actors.

asked for                        done
start_host, nodes that come      actors made; each is pinged, and waited for until it answers
set_…, scale_headroom, forget    a call that nobody waits for, after it is written to the store
move                             a thread brings the unit to rest and its log over, and says how it went
nothing for a while              every actor is pinged: a silent one is quarantined, a restarted one gets everything again
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray

from actors.coordinator.control_plane import ControlPlane
from actors.coordinator.effects import Part, Stream
from actors.coordinator.settings import CoordinatorSettings
from actors.dispatcher import dispatcher_actor
from actors.dispatcher.dispatcher_actor import DispatcherSettings, NodeShares
from actors.dispatcher.turn_loop import Record as TurnRecord
from actors.gateway import gateway_actor
from actors.gateway.gateway_actor import GatewaySettings
from actors.messages.unit_messages import Copy, Unit, copies_reader, units_to_json
from actors.runtime import kv_store
from actors.runtime.cluster import all_names, end, kill, nodes, short_id
from actors.runtime.event_log import machine_clock
from actors.runtime.names import (
    declared_key,
    dispatcher_key,
    dispatcher_name,
    find,
    gateway_name,
    host_key,
    host_name,
    shares_key,
)
from loadshed.records import header_of
from scheduler.turns.round_robin import RoundRobin

FAILURES_KEPT = 100
# A move of a unit: for its log to come over.
MOVE_S = 60.0


@dataclass(slots=True)
class Peer:
    """Another actor, as far as the coordinator knows it."""

    handle: Any = None
    pid: int | None = None
    quarantined: bool = False
    pinged: bool = False
    """A ping is under way."""


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
    _being_set: Counter[str] = field(init=False, default_factory=Counter)
    """By actor, calls under way that say what it is to have."""

    @property
    def waited_for(self) -> tuple[str, ...]:
        return tuple(name for name, peer in self._peers.items() if peer.pid is None)

    @property
    def being_set(self) -> tuple[str, ...]:
        """Actors that have not yet answered which units or streams they are to have, and gateways that are still to be asked.

        Of hosts nothing is lost meanwhile: gateways keep for their units what they are to read.
        """
        kept = (name for name in self.quarantined if name.partition("-")[0] == "gateway")
        return tuple({*self._being_set, *kept})

    @property
    def quarantined(self) -> tuple[str, ...]:
        return tuple(name for name, peer in self._peers.items() if peer.quarantined)

    # -- what the control plane asks for ------------------------------------------------------------------

    def start_host(self, host: str, node: str) -> None:
        dirs = self.settings.dirs(node)
        settings = self.settings
        arguments = (host, self._node_ids[node], dirs, settings.live, settings.cores, settings.events)
        self._meet(host_name(host), settings.start_host(*arguments))

    def stop_host(self, host: str) -> None:
        name = host_name(host)
        kv_store.delete(host_key(host))
        self._peers.pop(name, None)
        threading.Thread(target=end, args=([name],), daemon=True).start()

    def set_units(self, host: str, units: Sequence[Unit]) -> None:
        kv_store.put(host_key(host), units_to_json(units))
        self._set(host_name(host), "set_units", list(units))

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None:
        scale = (unit, factor, share, original)
        self._call(host_name(host), "scale_headroom", *scale)

    def set_keep(self, host: str, unit: str, keep: float) -> None:
        self._call(host_name(host), "set_keep", unit, keep)

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        kv_store.put(dispatcher_key(node), [shares, hosts])
        self._call(dispatcher_name(node), "set_shares", shares, hosts)

    def set_streams(self, node: str, streams: Mapping[str, Stream]) -> None:
        name, before = gateway_name(node), self._streams.get(node, {})
        for stream in [one for one in before if one not in streams]:
            self._call(name, "drop", stream)
        for stream, one in streams.items():
            if stream in before and before[stream].home != one.home:
                self._call(name, "drop", stream)
        own = [(one.sql, one.readers) for one in streams.values() if one.home == node]
        if own:
            self._set(name, "declare_all", own)
        for stream, one in streams.items():
            if one.home != node:
                self._set(name, "follow", one.home, stream, one.readers)
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
        kv_store.put(declared_key() if part == "declared" else shares_key(), value)

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
        given = GatewaySettings(dirs, live.retained_bytes, live.results_bytes, endpoint=settings.endpoint)
        made = gateway_actor.start(node_id, given)
        self._meet(gateway_name(node), made)
        rests = live.lane_part < 1
        turns = DispatcherSettings(
            dirs.dispatcher_socket, live.round_s, lanes, cores=settings.cores, rests=rests
        )
        recall = partial(recall_shares, node)
        recorder = None if settings.data_folder is None else partial(turn_recorder, settings, node, lanes)
        made = dispatcher_actor.start(dispatcher_name(node), node_id, turns, recall, recorder)
        self._meet(dispatcher_name(node), made)

    def _meet(self, name: str, made: Any) -> None:
        peer = self._peers[name] = Peer(made)
        self._ping(name, peer)

    def _forget_node(self, node: str) -> None:
        self._streams.pop(node, None)
        kv_store.delete(dispatcher_key(node))
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

    def _call(self, name: str, method: str, *arguments: Any) -> Future[Any] | None:
        """Call an actor without waiting for the answer; None if it is quarantined, and everything is sent to it later."""
        peer = self._peers.setdefault(name, Peer())
        handle = None if peer.quarantined else self._handle(name, peer)
        if handle is None:
            peer.quarantined = True
            return None
        sent: Future[Any] = getattr(handle, method).remote(*arguments).future()
        sent.add_done_callback(lambda answer: self._answered(name, peer, method, answer))
        return sent

    def _set(self, name: str, method: str, *arguments: Any) -> None:
        """Call an actor, which counts as `being_set` until it has answered or the call has failed."""
        sent = self._call(name, method, *arguments)
        if sent is not None:
            self._being_set[name] += 1
            sent.add_done_callback(lambda _: self.post(partial(self._was_set, name)))

    def _was_set(self, name: str) -> None:
        self._being_set[name] -= 1
        if not self._being_set[name]:
            del self._being_set[name]

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
            kv_store.delete(key)


def recall_shares(node: str) -> NodeShares | None:
    """What a dispatcher that begins anew finds."""
    found = kv_store.get(dispatcher_key(node))
    return None if found is None else (found[0], found[1])


def turn_recorder(settings: CoordinatorSettings, node: str, lanes: int) -> TurnRecord:
    writer = settings.log_writer()
    assert writer is not None
    core = RoundRobin({}, settings.live.round_s, lanes)
    log = writer.open(header_of("turns", node, machine_clock(), core))
    return lambda _, event, now, grants: log.record(event, now, grants)
