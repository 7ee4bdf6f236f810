"""Effects of the control plane (`actors.coordinator.effects`) as calls of Ray actors.

The control plane requests effects such as "start a host" or "set these shares", without waiting for results. `RayEffects` carries
them out, as the table shows:

requested                        carried out
start_host, new nodes            actors are created; each is pinged until it answers
set_…, scale_headroom, forget    an actor is called without waiting for the answer; units and shares are stored first
move                             a thread brings the unit to rest, copies its log, and reports success or failure
watch                            all actors are pinged: silent actors are quarantined, restarted ones get their state
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray

from actors.coordinator.actor_calls import ActorCalls
from actors.coordinator.control_plane import ControlPlane
from actors.coordinator.effects import NodeStream, Part
from actors.coordinator.settings import CoordinatorSettings
from actors.dispatcher import dispatcher_actor
from actors.dispatcher.dispatcher_actor import DispatcherSettings, NodeShares
from actors.dispatcher.turn_loop import Record as TurnRecord
from actors.gateway import gateway_actor
from actors.gateway.gateway_actor import GatewayOptions
from actors.host import host_actor
from actors.messages.unit_messages import Copy, Unit, copies_reader, units_to_json
from actors.runtime import kv_store
from actors.runtime.cluster import all_names, end, kill, nodes, short_id
from actors.runtime.names import (
    DECLARED_KEY,
    SHARES_KEY,
    dispatcher_key,
    dispatcher_name,
    find,
    gateway_name,
    host_key,
    host_name,
)
from scheduler.turns.round_robin import TurnRoundRobin

# Seconds that each part of a move may take, such as copying the unit's log.
MOVE_S = 60.0


@dataclass
class RayEffects:
    """Effects of the control plane, as calls of other actors. Only the control thread calls the methods, except `_bring`."""

    settings: CoordinatorSettings
    post: Callable[[Callable[[], None]], None]
    """Function that runs another function on the control thread."""
    plane: ControlPlane = field(init=False)
    actors: ActorCalls = field(init=False)
    _node_ids: dict[str, str] = field(init=False, default_factory=dict)
    _lanes: dict[str, int] = field(init=False, default_factory=dict)
    _streams: dict[str, Mapping[str, NodeStream]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.actors = ActorCalls(self.post, self._make_again, self._send_again)

    def start_host(self, host: str, node: str) -> None:
        settings = self.settings
        arguments = (settings.dirs(node), settings.live, settings.cores, settings.events)
        self.actors.meet(host_name(host), host_actor.start(host, self._node_ids[node], *arguments))

    def stop_host(self, host: str) -> None:
        name = host_name(host)
        kv_store.delete(host_key(host))
        self.actors.forget(name)
        threading.Thread(target=end, args=([name],), daemon=True).start()

    def set_units(self, host: str, units: Sequence[Unit]) -> None:
        kv_store.put(host_key(host), units_to_json(units))
        self.actors.set(host_name(host), "set_units", list(units))

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None:
        scale = (unit, factor, share, original)
        self.actors.call(host_name(host), "scale_headroom", *scale)

    def set_keep(self, host: str, unit: str, keep: float) -> None:
        self.actors.call(host_name(host), "set_keep", unit, keep)

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        kv_store.put(dispatcher_key(node), [shares, hosts])
        self.actors.call(dispatcher_name(node), "set_shares", shares, hosts)

    def set_streams(self, node: str, streams: Mapping[str, NodeStream]) -> None:
        name, before = gateway_name(node), self._streams.get(node, {})
        for stream_name, stream in before.items():
            if stream_name not in streams or streams[stream_name].home != stream.home:
                self.actors.call(name, "drop", stream_name)
        own = [(stream.sql, stream.readers) for stream in streams.values() if stream.home == node]
        if own:
            self.actors.set(name, "declare_all", own)
        for stream_name, stream in streams.items():
            if stream.home != node:
                self.actors.set(name, "follow", stream.home, stream_name, stream.readers)
        self._streams[node] = streams

    def set_copies(self, node: str, copies: Mapping[str, Copy]) -> None:
        self.actors.call(gateway_name(node), "set_copies", dict(copies))

    def forget(self, node: str, unit: str) -> None:
        self.actors.call(gateway_name(node), "forget_unit", unit)

    def move(self, unit: str, host: str, origin: str, node: str) -> None:
        threading.Thread(
            target=self._bring, args=(unit, host, origin, node), name="move", daemon=True
        ).start()

    def save(self, part: Part, value: Any) -> None:
        kv_store.put(DECLARED_KEY if part == "declared" else SHARES_KEY, value)

    def look_at_nodes(self) -> dict[str, int]:
        """Return the lanes of all nodes that are alive and have processors; start a gateway and a dispatcher on new nodes."""
        alive = {
            short_id(record["NodeID"]): record
            for record in nodes()
            if record["Alive"] and record["Resources"].get("CPU", 0) >= 1
        }
        gone, new = self._node_ids.keys() - alive.keys(), alive.keys() - self._node_ids.keys()
        self._node_ids = {node: record["NodeID"] for node, record in alive.items()}
        lanes_max = self.settings.live.lanes
        self._lanes = {
            node: min(lanes_max, int(record["Resources"]["CPU"])) for node, record in alive.items()
        }
        for node in gone:
            self._forget_node(node)
        for node in new:
            self._start_node(node)
        return self._lanes

    def watch(self) -> None:
        """Pass new and lost nodes to the control plane, and ping all actors."""
        self.plane.nodes_changed(self.look_at_nodes(), time.monotonic())
        self.actors.ping_all()

    def _start_node(self, node: str) -> None:
        settings = self.settings
        dirs, node_id = settings.dirs(node), self._node_ids[node]
        live, lanes = settings.live, self._lanes[node]
        gateway = GatewayOptions(dirs, live.retained_bytes, live.results_bytes, endpoint=settings.endpoint)
        self.actors.meet(gateway_name(node), gateway_actor.start(node_id, gateway))
        rests = live.lane_part < 1
        turns = DispatcherSettings(
            dirs.dispatcher_socket, live.round_s, lanes, cores=settings.cores, rests=rests
        )
        recall = partial(recall_shares, node)
        recorder = None if settings.data_folder is None else partial(turn_recorder, settings, node, lanes)
        dispatcher = dispatcher_actor.start(dispatcher_name(node), node_id, turns, recall, recorder)
        self.actors.meet(dispatcher_name(node), dispatcher)

    def _forget_node(self, node: str) -> None:
        self._streams.pop(node, None)
        kv_store.delete(dispatcher_key(node))
        names = [gateway_name(node), dispatcher_name(node)]
        for name in names:
            self.actors.forget(name)
        # Gateways no longer keep frames for copies of streams on the lost node. Otherwise full logs would stop producers for ever.
        for other in self._node_ids:
            self.actors.call(gateway_name(other), "forget_reader", copies_reader(node))
        threading.Thread(target=kill, args=(names,), daemon=True).start()

    def _make_again(self, name: str) -> None:
        kind, _, rest = name.partition("-")
        if kind == "host" and rest in self.plane.hosts:
            self.start_host(rest, self.plane.hosts[rest])
        elif rest in self._node_ids:
            self._start_node(rest)
        self._send_again(name)

    def _send_again(self, name: str) -> None:
        kind, _, rest = name.partition("-")
        match kind:
            case "host":
                self.plane.sync.host_restarted(rest)
            case "dispatcher":
                self.plane.sync.dispatcher_restarted(rest)
            case "gateway":
                self._streams.pop(rest, None)
                self.plane.sync.gateway_restarted(rest)

    def _bring(self, unit: str, host: str, origin: str, node: str) -> None:
        """Bring the unit to rest and copy its logs to the node; runs on its own thread."""
        plane, there = self.plane, gateway_name(node)
        try:
            following = ray.get(find(host_name(host)).drain.remote(unit), timeout=MOVE_S)
            to = find(there)
            ray.get(to.follow_class.remote(origin, unit), timeout=MOVE_S)
            if following:
                # The call of `class_frames` returns as soon as the copy contains the last frame.
                last = to.class_frames.remote(unit, following - 1, "", MOVE_S)
                if not ray.get(last, timeout=2 * MOVE_S).frames:
                    raise TimeoutError(f"the log of {unit} was not copied within {MOVE_S:g} s")
            ray.get(to.unfollow_class.remote(unit), timeout=MOVE_S)
        except Exception as problem:
            self.actors.failures.append(f"{unit} stays on node {origin}: {problem}")
            self.post(partial(plane.stayed, unit))
        else:
            self.post(lambda: plane.moved(unit, time.monotonic()))

    def stop_strangers(self) -> None:
        """End hosts that the saved state does not contain, because a killed coordinator could not end them."""
        own = {host_name(host) for host in self.plane.hosts}
        strangers = [name for name in all_names() if name.startswith(host_name("")) and name not in own]
        threading.Thread(target=end, args=(strangers,), daemon=True).start()

    def stop_all(self, hosts: Mapping[str, str], nodes: Sequence[str]) -> None:
        """End all hosts, then all dispatchers and gateways, and delete the saved state."""
        end([host_name(host) for host in hosts])
        end([dispatcher_name(node) for node in nodes])
        end([gateway_name(node) for node in nodes], True)
        for key in (*map(host_key, hosts), *map(dispatcher_key, nodes), DECLARED_KEY, SHARES_KEY):
            kv_store.delete(key)


def recall_shares(node: str) -> NodeShares | None:
    """Return the saved shares of a node, for a dispatcher that starts; None if no shares are saved."""
    saved = kv_store.get(dispatcher_key(node))
    return None if saved is None else (saved[0], saved[1])


def turn_recorder(settings: CoordinatorSettings, node: str, lanes: int) -> TurnRecord:
    writer = settings.log_writer()
    assert writer is not None
    core = TurnRoundRobin({}, settings.live.round_s, lanes)
    return writer.open("turns", node, core).record
