"""The service of `weir up`: REST and console, from before the system is up until after it has ended.

Beside the catalog there are two files: a key of an administrator, made when there is none that is live, and where the
service is reached, as long as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from configs.errors import Away, InvalidInput
from configs.service.service_settings import ServiceSettings
from configs.service.up_settings import UpSettings
from services.api.server import Serving
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home, write_private
from services.ingest.keys import ADMIN, FEEDS, METRICS
from services.ingest.progress import FeedProgress

if TYPE_CHECKING:
    from actors.system import System
    from services.mirror.poll_loop import MirrorProgress
    from services.watch.watch import Watch

Feeds = Callable[[], Sequence[FeedProgress]]
"""How far Spark has come with each."""
PRINCIPAL = "admin"
# A coordinator that is started again is back after some seconds.
AWAY_S = 10.0
# Ray ends a process that has not reached its head for 60 s, without a word of ours.
AWAY_MOST_S = 45.0
# Longest time that a change waits until it is enacted; a first query has a host process started, which takes two seconds.
ENACT_S = 5.0
STARTING = "the system is being started"
# Keys that were made elsewhere, as for the pods of a cluster; each is of the principal and scope of its name.
GIVEN_KEYS: Mapping[str, str] = {
    ADMIN: "WEIR_ADMIN_KEY",
    FEEDS: "WEIR_FEEDS_KEY",
    METRICS: "WEIR_METRICS_KEY",
}


def given_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Those that the environment has, by principal."""
    return {name: key for name, variable in GIVEN_KEYS.items() if (key := environ.get(variable, "").strip())}


@contextmanager
def served(
    catalog: Catalog, home: Home, settings: ServiceSettings, who: str, given: Mapping[str, str] = {}
) -> Iterator[Served]:
    """It listens; nothing runs yet. Keys that are given, by principal, count from now on."""
    service = service_of(catalog, settings)
    service.waits_for = lambda: STARTING
    for principal, key in given.items():
        catalog.keys.adopt(key, principal, [principal], who)
    if given:
        service.snapshot.refresh()
    if ADMIN not in given:
        make_admin_key(catalog, service, home, who)
    with Serving(service) as serving:
        write_private(home.endpoint, serving.url)
        try:
            yield Served(service, serving, None if ADMIN in given else home)
        finally:
            # Another may have come after this one.
            with suppress(OSError):
                if home.endpoint.read_text(encoding="utf-8") == serving.url:
                    home.endpoint.unlink()


class Served:
    """A service that listens."""

    def __init__(self, service: Service, serving: Serving, home: Home | None) -> None:
        """The home is where the administrator's key is, if it was made."""
        self._service, self._serving, self._home = service, serving, home

    def told(self) -> dict[str, object]:
        """Where it is; never the key itself."""
        return {
            "api": self._serving.url,
            "console": f"{self._serving.url}/console/",
            **({} if self._home is None else {"admin_key": str(self._home.admin_key)}),
        }

    def feeds(self) -> list[FeedProgress]:
        """The progress of each declared feed, whatever process runs it."""
        return self._service.feeds()

    def attach(
        self,
        system: System,
        watch: Watch,
        settings: UpSettings,
        own_key: str,
        feeds: Feeds | None,
        mirrors: Callable[[], Sequence[MirrorProgress]],
        running: ExitStack,
    ) -> None:
        """What runs answers too, from now on and until all of it ends. Of feeds that are not brought here, who brings them tells."""
        # They look at the system, for which Ray is imported.
        from services.api.routes.results import results_of
        from services.metrics.collector import SystemCollector
        from services.metrics.nodes import Nodes
        from services.plan.live_measurement import RunningMeasured
        from services.plan.planner import Planner
        from services.plan.worker_process import Aside
        from services.results.rows import RowDelivery
        from services.tuning.tuner import Tuner
        from services.watch.source import RunningSystem

        service = self._service
        source = RunningSystem(system)
        results = results_of(service, watch, lambda: own_key)
        running.callback(results.close)
        measured = running.enter_context(RunningMeasured(watch, settings.live))
        service.watch, service.results, service.mirrors = watch, results, mirrors
        service.rows = RowDelivery(watch.endpoint_of, lambda: own_key)
        # Forecasts are made one after another and may take seconds: no plan waits for them.
        forecasting = Aside()
        running.enter_context(Tuner(source, watch, forecasting.forecasts))
        # It ends first: who waits for a forecast is told that there will be none.
        running.enter_context(forecasting)
        aside = running.enter_context(Aside())
        service.planner = Planner(self._service.catalog, settings.live, measured, aside.plan)
        with_operators = service.settings.metrics_operators
        nodes = running.enter_context(Nodes(source, watch, with_operators=with_operators))
        service.nodes, service.brought = nodes, feeds
        service.metrics = SystemCollector(
            watch, nodes, service.feeds, service.snapshot.priority_classes, mirrors
        )
        # Callers are sent away before what answers them ends.
        running.callback(self._serving.stop)

    def is_ready(self, enact: Callable[[], bool] = lambda: True) -> None:
        """Everything that is declared has been started, as far as it can be; whoever asks from now on is told of it.

        From now on a change is acknowledged once `enact` returns.
        """
        self._service.enact = enact
        watch = self._service.watch
        if watch is not None:
            with suppress(Away):
                watch.view(max_age_s=0.0)
        self._service.waits_for = lambda: "" if watch is None else absent(watch)


def absent(watch: Watch) -> str:
    """Say that the system has ended or has not answered for a while; empty while it answers."""
    if watch.has_ended:
        return f"the system {watch.source.name} has ended"
    if watch.away_s > AWAY_S:
        return f"the system {watch.source.name} has not answered for {watch.away_s:.0f} s"
    return ""


def check_there(watch: Watch) -> None:
    """Raise Away if the system has ended, or has not answered for AWAY_MOST_S: `weir up` ends then."""
    if watch.has_ended or watch.away_s > AWAY_MOST_S:
        raise Away(absent(watch), hint="start it again with `weir up`; what was declared is in the catalog")


def make_admin_key(catalog: Catalog, service: Service, home: Home, who: str) -> None:
    """There is one that is live, in a file of its owner's alone."""
    path = home.made().admin_key
    with suppress(OSError):
        if service.snapshot.holder_of(path.read_bytes().strip()) is not None:
            return
    try:
        key, info = catalog.keys.create(PRINCIPAL, [ADMIN], who)
    except InvalidInput as problem:
        # Of another home with the same catalog, or of files that are lost.
        problem.hint = (
            f"revoke one with `weir keys revoke`, or put the key of one into {path}: {problem.hint}"
        )
        raise
    try:
        write_private(path, f"{key}\n")
    except InvalidInput:
        catalog.keys.revoke(info.id, who)  # no process holds it
        raise
    service.snapshot.refresh()
