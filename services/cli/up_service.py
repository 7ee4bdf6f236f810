"""The service of `weir up`: REST and console, from before the system is up until after it has ended.

Beside the catalog there are two files: a key of an administrator, made when there is none that is live, and where the
service is reached, as long as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from configs.live import LiveSettings
from configs.problems import Away, InvalidInput
from configs.service import ServiceSettings
from services.api.service import Service, service_of
from services.api.serving import Serving
from services.catalog.catalog import Catalog
from services.catalog.home import Home, write_private
from services.catalog.reconcile import Reconciling
from services.ingest.job import Door
from services.ingest.keys import ADMIN
from services.ingest.progress import FeedProgress

if TYPE_CHECKING:
    from actors.system import System

Feeds = Callable[[], Sequence[FeedProgress]]
"""How far Spark has come with each."""
PRINCIPAL = "admin"
STARTING = "the system is being started"


@contextmanager
def served(catalog: Catalog, home: Home, settings: ServiceSettings, who: str) -> Iterator[Served]:
    """It listens; nothing runs yet."""
    service = service_of(catalog, settings)
    service.waits_for = lambda: STARTING
    make_admin_key(catalog, service, home, who)
    with Serving(service) as serving:
        write_private(home.endpoint, serving.url)
        try:
            yield Served(service, serving, home)
        finally:
            # Another may have come after this one.
            with suppress(OSError):
                if home.endpoint.read_text(encoding="utf-8") == serving.url:
                    home.endpoint.unlink()


class Served:
    """A service that listens."""

    def __init__(self, service: Service, serving: Serving, home: Home) -> None:
        self._service, self._serving, self._home = service, serving, home

    def told(self) -> dict[str, object]:
        """Where it is; never the key itself."""
        return {
            "api": self._serving.url,
            "console": f"{self._serving.url}/console/",
            "admin_key": str(self._home.admin_key),
        }

    def attach(
        self,
        system: System,
        settings: LiveSettings,
        door: Door,
        reconciling: Reconciling,
        feeds: Feeds,
        running: ExitStack,
    ) -> None:
        """What runs answers too, from now on and until all of it ends."""
        # They look at the system, for which Ray is imported.
        from services.api.results import results_of
        from services.metrics.collector import SystemCollector
        from services.metrics.nodes import Nodes
        from services.plan.aside import Aside
        from services.plan.planner import Planner
        from services.plan.running import RunningMeasured
        from services.results.rows import Rows
        from services.watch.source import RunningSystem
        from services.watch.watch import Watch

        service = self._service
        source = RunningSystem(system)
        watch = running.enter_context(Watch(source, lambda: reconciling.problems))
        results = results_of(service, watch, lambda: system.ingest_key)
        running.callback(results.close)
        measured = running.enter_context(RunningMeasured(watch, settings))
        service.watch, service.results = watch, results
        service.rows = Rows(lambda: door.endpoint, lambda: door.api_key)
        aside = running.enter_context(Aside())
        service.planner = Planner(self._service.catalog, settings, measured, aside.plan)
        with_operators = service.settings.metrics_operators
        nodes = running.enter_context(Nodes(source, watch, with_operators=with_operators))
        service.metrics = SystemCollector(watch, nodes, feeds, service.snapshot.priority_classes)
        # Callers are sent away before what answers them ends.
        running.callback(self._serving.stop)

    def is_ready(self) -> None:
        """Everything that is declared has been started, as far as it can be; whoever asks from now on is told of it."""
        watch = self._service.watch
        if watch is not None:
            with suppress(Away):
                watch.view(max_age_s=0.0)
        self._service.waits_for = lambda: ""


def make_admin_key(catalog: Catalog, service: Service, home: Home, who: str) -> None:
    """There is one that is live, in a file of its owner's alone."""
    path = home.made().admin_key
    with suppress(OSError):
        if service.snapshot.holder_of(path.read_bytes().strip()) is not None:
            return
    try:
        key, made = catalog.keys.create(PRINCIPAL, [ADMIN], who)
    except InvalidInput as problem:
        # Of another home with the same catalog, or of files that are lost.
        problem.hint = (
            f"revoke one with `weir keys revoke`, or put the key of one into {path}: {problem.hint}"
        )
        raise
    try:
        write_private(path, f"{key}\n")
    except InvalidInput:
        catalog.keys.revoke(made.id, who)  # nobody has it
        raise
    service.snapshot.refresh()
