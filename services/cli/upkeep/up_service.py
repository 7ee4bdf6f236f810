"""The service of `weir up`: the REST API and the console, which start before the system and end after it.

Two files are kept in WEIR_HOME: the key of an administrator, created if there is no valid key, and the address of the service,
while it runs.
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
from services.common.gateway_trust import trust_of
from services.common.weir_home import Home, write_private
from services.ingest.keys import ADMIN, FEEDS, METRICS
from services.ingest.progress import FeedProgress

if TYPE_CHECKING:
    from actors.system import System
    from services.mirror.poll_loop import MirrorProgress
    from services.watch.watch import Watch

Feeds = Callable[[], Sequence[FeedProgress]]
"""Function that returns the progress of each feed."""
PRINCIPAL = "admin"
# Seconds without an answer of the coordinator that are reported as a problem; restarting the coordinator takes some seconds.
AWAY_S = 10.0
# Seconds without an answer of the coordinator after which `weir up` ends.
# After 60 s without its head node, Ray would kill the process without an error message of Weir.
AWAY_MOST_S = 45.0
# Maximum seconds until a change is acknowledged, even if the change is not made yet: starting a host takes two seconds.
ENACT_S = 5.0
STARTING = "the system is being started"
# Environment variables with keys that were made outside Weir, for example for the pods of a cluster.
# Each name in this mapping is the principal of the key, and also the only scope of the key.
GIVEN_KEYS: Mapping[str, str] = {
    ADMIN: "WEIR_ADMIN_KEY",
    FEEDS: "WEIR_FEEDS_KEY",
    METRICS: "WEIR_METRICS_KEY",
}


def given_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the API keys in the environment, by principal."""
    return {name: key for name, variable in GIVEN_KEYS.items() if (key := environ.get(variable, "").strip())}


@contextmanager
def served(
    catalog: Catalog, home: Home, settings: ServiceSettings, who: str, given: Mapping[str, str] = {}
) -> Iterator[Served]:
    """Run the service until the `with` block ends, at first without a system. The service also accepts the API keys in `given`, by principal."""
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
            # If another service has written its own address to the file meanwhile, that address must stay.
            with suppress(OSError):
                if home.endpoint.read_text(encoding="utf-8") == serving.url:
                    home.endpoint.unlink()


class Served:
    """Handle of the running service of `weir up`, through which `weir up` connects the service to the system and checks the system."""

    def __init__(self, service: Service, serving: Serving, home: Home | None) -> None:
        """`home` is the folder with the administrator's key; None if the key was given in the environment."""
        self._service, self._serving, self._home = service, serving, home
        self.feeds = service.feeds
        """Function that returns the progress of each declared feed, regardless of the process that runs it."""

    def told(self) -> dict[str, object]:
        """Return the addresses of the service and the path of the administrator's key, but never the key."""
        return {
            "api": self._serving.url,
            "console": f"{self._serving.url}/console/",
            **({} if self._home is None else {"admin_key": str(self._home.admin_key)}),
        }

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
        """Connect the service to the system until the exit stack `running` is closed. Without `feeds`, other processes report the progress of feeds."""
        # The modules below import Ray, so they are imported only when a system runs: `weir up --help` must not wait for Ray.
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
        trust = trust_of(settings)
        results = results_of(service, watch, lambda: own_key, trust)
        running.callback(results.close)
        measured = running.enter_context(RunningMeasured(watch, settings.live))
        service.watch, service.results, service.mirrors = watch, results, mirrors
        service.rows = RowDelivery(watch.endpoint_of, lambda: own_key, trust)
        # Forecasts may take seconds, so the tuner has its own process for them, and no `weir plan` has to wait for a forecast.
        forecasting = Aside()
        running.enter_context(Tuner(source, watch, forecasting.forecasts))
        # The forecasting process is entered after the tuner, so this process ends first, and the tuner stops waiting for a forecast.
        running.enter_context(forecasting)
        aside = running.enter_context(Aside())
        service.planner = Planner(self._service.catalog, settings.live, measured, aside.plan)
        with_operators = service.settings.metrics_operators
        nodes = running.enter_context(Nodes(source, watch, with_operators=with_operators))
        service.nodes, service.brought = nodes, feeds
        service.metrics = SystemCollector(
            watch, nodes, service.feeds, service.snapshot.priority_classes, mirrors
        )
        # The server is entered last and so stops first, before the objects that it needs to answer requests.
        running.callback(self._serving.stop)

    def is_ready(self, enact: Callable[[], bool] = lambda: True) -> None:
        """Report the system as ready: everything declared has been started, as far as possible.

        After this call, the service acknowledges a change of the catalog only once `enact` returns.
        """
        self._service.enact = enact
        watch = self._service.watch
        if watch is not None:
            with suppress(Away):
                watch.view(max_age_s=0.0)
        self._service.waits_for = lambda: "" if watch is None else absent(watch)


def absent(watch: Watch) -> str:
    """Return a sentence about the problem if the system has ended, or has not answered for AWAY_S; otherwise an empty text."""
    if watch.has_ended:
        return f"the system {watch.source.name} has ended"
    if watch.away_s > AWAY_S:
        return f"the system {watch.source.name} has not answered for {watch.away_s:.0f} s"
    return ""


def check_there(watch: Watch) -> None:
    """Raise Away, which ends `weir up`, if the system has ended or has not answered for AWAY_MOST_S."""
    if watch.has_ended or watch.away_s > AWAY_MOST_S:
        raise Away(absent(watch), hint="run `weir up` again; all declarations are still in the catalog")


def make_admin_key(catalog: Catalog, service: Service, home: Home, who: str) -> None:
    """Create a key for the administrator in a file that only its owner can read, unless the file has a valid key."""
    path = home.made().admin_key
    with suppress(OSError):
        if service.snapshot.holder_of(path.read_bytes().strip()) is not None:
            return
    try:
        key, info = catalog.keys.create(PRINCIPAL, [ADMIN], who)
    except InvalidInput as problem:
        # The administrator already has the maximum number of keys, in lost files or in another WEIR_HOME with this catalog.
        problem.hint = (
            f"revoke a key with `weir keys revoke`, or write an existing key to {path}: {problem.hint}"
        )
        raise
    try:
        write_private(path, f"{key}\n")
    except InvalidInput:
        # The key's file could not be written. The key is revoked, because no user could ever read the key.
        catalog.keys.revoke(info.id, who)
        raise
    service.snapshot.refresh()
