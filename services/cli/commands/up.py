"""`weir up`: run what the catalog declares: a system, its service, and Spark for the feeds of its streams.

On this machine, all of these start and end with the command. On a Ray cluster (`--address`), the system is found or started, and
it keeps running until `weir down` ends it. There, `weir ingest --from-service` runs the feeds.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.text import Text

from configs.classes.managers import MANAGERS, known_manager
from configs.documents.declarations import Document
from configs.errors import Away
from configs.service.service_settings import ADMISSIONS, PORT
from configs.service.up_settings import UpSettings
from services.catalog.catalog import Catalog, opened
from services.catalog.reconcile import Reconciling
from services.cli.commands.ingest import (
    FolderOption,
    ended_by_signal,
    feeds_told,
    ingest_table,
    watch,
)
from services.cli.commands.mirror import mirror_table, mirrors_told
from services.cli.commands.sim import DEFAULT_MANAGER, make_folder
from services.cli.input.documents import wanted_documents
from services.cli.local_catalog import CatalogHere
from services.cli.service_location import who
from services.cli.tables.catalog_views import warn
from services.cli.tables.class_tables import class_view_table
from services.cli.tables.sheet import FormatOption
from services.cli.tables.state_log import (
    LOOK_S,
    States,
    feed_states,
    log_line,
    log_states,
    mirror_problems,
    mirror_states,
)
from services.cli.upkeep.machine import SystemMachine
from services.cli.upkeep.up_service import ENACT_S, Served, absent, check_there, given_keys, served
from services.cli.upkeep.up_settings import settings_of
from services.common.gateway_trust import trust_of
from services.common.weir_home import Home, OwnSystem, held, home_of
from services.ingest.java import find_java
from services.ingest.job import GatewayAddress
from services.ingest.keys import new_key
from services.ingest.progress import problems_of
from services.ingest.spark_supervisor import Brings
from services.mirror.doors import SystemDoor
from services.mirror.mirror_threads import Mirrors
from services.watch.class_views import ClassView, restarts, troubles
from services.watch.class_views import as_json as class_as_json
from services.watch.states import TROUBLED, ClassState

if TYPE_CHECKING:
    from actors.system import System
    from services.watch.watch import Watch

EVERYWHERE = ("0.0.0.0", "[::]")
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="File of settings, which options on the command line override."),
]


FilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        "-f",
        help="Documents to apply first: a file, a folder, or `-` for standard input; may be repeated.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        help="Address of a Ray cluster, on which the system keeps running when this command ends.",
        show_default="a new Ray on this machine",
    ),
]
ManagerOption = Annotated[
    str | None,
    typer.Option(
        "--manager",
        "-m",
        help=f"Load manager, which decides on shedding and lending: {', '.join(MANAGERS)}.",
        show_default=DEFAULT_MANAGER,
    ),
]
LanesOption = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Number of processors per node that run queries.", show_default="1"),
]
HostOption = Annotated[
    str | None,
    typer.Option(
        help="Host name or IP address at which the gateway listens; `node` stands for the address of the node.",
        show_default="127.0.0.1",
    ),
]
PortOption = Annotated[
    int | None, typer.Option(min=0, max=65_535, help="Port of the gateway.", show_default="a free port")
]
ApiHostOption = Annotated[
    str | None, typer.Option(help="Host of the REST API and the console.", show_default="127.0.0.1")
]
ApiPortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        help="Port of the REST API and the console; 0 chooses a free port.",
        show_default=str(PORT),
    ),
]
ApiOption = Annotated[bool, typer.Option(help="Serve the REST API and the console.")]
AdmissionOption = Annotated[
    str | None,
    typer.Option(
        help=f"What to do with a declaration that would miss a delay target: {', '.join(ADMISSIONS)}.",
        show_default="warn",
    ),
]
CertificateOption = Annotated[Path | None, typer.Option(help="TLS certificate with its chain (PEM file).")]
PrivateKeyOption = Annotated[Path | None, typer.Option(help="Private key of the TLS certificate (PEM file).")]
OperatorsOption = Annotated[
    bool | None,
    typer.Option("--metrics-operators", help="Export the metrics of each operator to Prometheus, too."),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Print only problems, when they begin and when they end.")
]


def up(
    *,
    files: FilesOption = None,
    config: ConfigOption = None,
    address: AddressOption = None,
    manager: ManagerOption = None,
    lanes: LanesOption = None,
    host: HostOption = None,
    port: PortOption = None,
    api_host: ApiHostOption = None,
    api_port: ApiPortOption = None,
    api: ApiOption = True,
    admission: AdmissionOption = None,
    tls_certificate: CertificateOption = None,
    tls_key: PrivateKeyOption = None,
    metrics_operators: OperatorsOption = None,
    folder: FolderOption = None,
    quiet: QuietOption = False,
    output: FormatOption = "table",
) -> None:
    """Run the declared queries, and serve the REST API and the console, until Ctrl-C.

    On a Ray cluster (--address), the system keeps running when this command ends.
    """
    settings = settings_of(
        config,
        {
            "--address": ("cluster.address", address),
            "--manager": ("live.manager", None if manager is None else known_manager(manager)),
            "--lanes": ("live.lanes", lanes),
            "--host": ("gateway.host", host),
            "--port": ("gateway.port", port),
            "--api-host": ("service.host", api_host),
            "--api-port": ("service.port", api_port),
            "--admission": ("service.admission", admission),
            "--tls-certificate": ("service.tls_certificate", tls_certificate),
            "--tls-key": ("service.tls_key", tls_key),
            "--metrics-operators": ("service.metrics_operators", metrics_operators),
        },
    )
    home, silent = home_of(os.environ), quiet or output == "json"
    console = Console(highlight=False, soft_wrap=True, quiet=silent)
    with ended_by_signal(), ExitStack() as running:
        if not silent:
            # `log_end` is registered first. It is therefore called last, after all parts of `weir up` have ended.
            running.push(partial(log_end, settings.on_cluster))
        running.enter_context(held(home))
        catalog = running.enter_context(opened(home))
        keys = given_keys(os.environ)
        # The service starts first: if its port is taken, the documents are not applied.
        service = running.enter_context(served(catalog, home, settings.service, who(), keys)) if api else None
        if files:
            here = CatalogHere(catalog, who(), partial(admitted, catalog, settings))
            warn(here.apply(wanted_documents(files)).warnings)
        check_feeds(catalog, folder := folder or home.feeds, settings)
        parts = Startup(settings=settings, home=home, catalog=catalog, service=service, running=running)
        overview = parts.overview(folder, console)
        if quiet:
            log_states(overview.states, quiet=True)
        watch(overview.picture, overview.told, overview.states, output)


def check_feeds(catalog: Catalog, folder: Path, settings: UpSettings) -> None:
    """Raise InvalidInput if feeds run on this machine, but Java is missing or the folder of the feeds cannot be created."""
    feeds = None if settings.on_cluster else catalog.desired().file
    if feeds is not None:
        find_java(feeds.session.java_home, os.environ)
    make_folder("--folder", folder)


def log_end(on_cluster: bool, _kind: object, problem: BaseException | None, _trace: object) -> None:
    """If a signal has ended `weir up`, log the signal. `problem` is the exception that the signal has raised."""
    ended = "the service has ended, the system keeps running" if on_cluster else "the system has ended"
    match problem:
        case KeyboardInterrupt():
            log_line(f"{ended}: by Ctrl-C")
        case SystemExit(code=code) if code == 128 + signal.SIGTERM:
            log_line(f"{ended}: by SIGTERM, as weir down sends it")


def admitted(catalog: Catalog, settings: UpSettings, documents: Sequence[Document]) -> Sequence[str]:
    """Check delay targets before a system runs, and return warnings. Loads come from the options of sources, or are assumed."""
    admission = settings.service.admission
    if admission == "off":
        return ()
    # The simulator is imported when a plan is made, so that `weir up` starts sooner.
    from services.plan.planner import Planner
    from services.remote.wire import WouldMissTarget

    plan = Planner(catalog, settings.live).plan(documents)
    if admission == "refuse" and not plan.holds:
        title = plan.warnings[0] if plan.warnings else "a delay target would be missed"
        hint = "reduce the requirements; `weir plan` shows what would fit"
        raise WouldMissTarget(title, hint=hint, plan=plan.as_json())
    return plan.warnings


@dataclass(frozen=True, kw_only=True)
class Startup:
    """Start of a system that runs the declarations of a catalog. When the exit stack `running` is closed, the parts end in reverse order."""

    settings: UpSettings
    home: Home
    catalog: Catalog
    service: Served | None
    running: ExitStack

    def overview(self, folder: Path, console: Console) -> Overview:
        """Start the system with its feeds and mirrors, and connect the service to the system. Print all addresses, and return a view of all parts."""
        for name, place in ({} if self.service is None else self.service.told()).items():
            console.print(f"{name.replace('_', ' ')}: {place}")
        system, endpoint = self._system(), None
        own_key, brings = new_key(), None
        if not self.settings.on_cluster:
            (node,) = system.status().system.nodes
            endpoint = system.endpoint(node)
            assert endpoint is not None
            console.print(f"gateway: {endpoint}")
            own_key = system.ingest_key
            gateway = GatewayAddress(from_here(endpoint, self.settings.gateway.host), own_key)
            brings = Brings(gateway.trusting(trust_of(self.settings)), folder)
        watch = self.running.enter_context(watching(system))
        mirrors = Mirrors(SystemDoor(watch, watch.endpoint_of, lambda: own_key, trust_of(self.settings)))
        machine = SystemMachine(system, own_key, mirrors, brings)
        self.running.callback(machine.stop)
        reconciling = Reconciling(self.catalog, machine)
        self._attach_service(system, watch, machine, own_key)
        feeds = machine.feeds if self.service is None else self.service.feeds
        watch.problems = lambda: [*reconciling.problems, *problems_of(feeds())]
        self.running.enter_context(reconciling)
        if self.service is not None:
            self.service.is_ready(lambda: reconciling.wait_enacted(ENACT_S))
        return Overview(watch, endpoint, machine, reconciling, self.service)

    def _system(self) -> System:
        """Start or find the system, and record its name and address, so that `weir top` and `weir down` find the system."""
        system = self.running.enter_context(begun(self.settings, self.home))
        on_cluster = self.settings.on_cluster
        self.home.note_system(OwnSystem(system.name, system.address, system.auth_mode, on_cluster))
        if not on_cluster:
            self.running.callback(self.home.forget_system)
        return system

    def _attach_service(self, system: System, watch: Watch, machine: SystemMachine, own_key: str) -> None:
        """Connect the service to the system. On a cluster, other processes run the feeds and report their progress to the service."""
        if self.service is None:
            return
        feeds = None if self.settings.on_cluster else machine.feeds
        self.service.attach(
            system,
            watch,
            self.settings,
            own_key=own_key,
            feeds=feeds,
            mirrors=machine.mirrors,
            running=self.running,
        )
        if self.settings.on_cluster:
            machine.brought_elsewhere = self.service.feeds


def begun(settings: UpSettings, home: Home) -> System:
    # Ray is imported when the system is started, so that `weir up --help` does not wait for this import.
    from actors.system import found_or_started, start
    from services.ingest.flight import FlightSettings

    gateway, cluster = settings.gateway, settings.cluster
    certificate, key = (None, None) if gateway.tls is None else (gateway.tls.certificate, gateway.tls.key)
    endpoint = FlightSettings(gateway.host, gateway.port, certificate, key)
    if cluster.address is None:
        return start(settings.live, [], endpoint=endpoint, home=home.folder)
    return found_or_started(
        settings.live,
        cluster.address,
        wait_s=cluster.wait_s,
        pinned=cluster.pin_lanes,
        endpoint=endpoint,
        home=home.folder,
    )


def watching(system: System) -> Watch:
    from services.watch.source import RunningSystem
    from services.watch.watch import Watch

    return Watch(RunningSystem(system))


def from_here(endpoint: str, host: str) -> str:
    """Return the endpoint of a gateway in a form that works on this machine, even if the machine cannot resolve its own public name."""
    if host not in EVERYWHERE:
        return endpoint
    scheme, port = endpoint.partition("://")[0], endpoint.rpartition(":")[2]
    return f"{scheme}://127.0.0.1:{port}"


@dataclass(frozen=True)
class Overview:
    """View of the system and its feeds for the terminal; while the coordinator does not answer, the view shows the last known state."""

    _watch: Watch
    _endpoint: str | None
    _machine: SystemMachine
    _reconciling: Reconciling
    _service: Served | None

    def picture(self) -> Group:
        classes = self._classes()
        feeds = [ingest_table("feeds", self._machine.feeds())]
        if mirrors := self._machine.mirrors():
            feeds.append(mirror_table("mirrors", mirrors))
        # The tables of classes and feeds already show the problems of classes and feeds, so these problems are not listed again.
        problems = (
            Text(problem, style="yellow")
            for problem in (
                *self._away(),
                *self._restarts(),
                *self._reconciling.problems,
                *self._watch.losses(),
            )
        )
        return Group(class_view_table(f"system {self._watch.source.name}", classes), *feeds, *problems)

    def told(self) -> dict[str, object]:
        classes = self._classes()
        return {
            **({} if self._endpoint is None else {"endpoint": self._endpoint}),
            **(self._service.told() if self._service is not None else {}),
            "classes": [class_as_json(view) for view in classes],
            **feeds_told(self._machine.feeds()),
            **mirrors_told(self._machine.mirrors()),
            "problems": self._problems(classes),
        }

    def states(self) -> States:
        """Return the states of classes, feeds and mirrors, with all current problems."""
        classes, feeds, mirrors = self._classes(), self._machine.feeds(), self._machine.mirrors()
        parts = {f"system {self._watch.source.name}": "ready"}
        parts |= {f"class {view.name}": logged_state(view) for view in classes}
        problems = [*self._problems(classes), *mirror_problems(mirrors)]
        return States(parts | feed_states(feeds) | mirror_states(mirrors), problems)

    def _problems(self, classes: Sequence[ClassView]) -> list[str]:
        return [
            *self._away(),
            *self._restarts(),
            *self._watch.problems(),
            *troubles(classes),
            *self._watch.losses(),
        ]

    def _restarts(self) -> list[str]:
        """Return a line for each process of the system that was being restarted at the last poll."""
        with suppress(Away):
            return restarts(self._watch.view(max_age_s=LOOK_S).look.status)
        return []

    def _away(self) -> list[str]:
        problem = absent(self._watch)
        return [problem] if problem else []

    def _classes(self) -> Sequence[ClassView]:
        """Return the last known figures of all classes; raise Away if the system has ended."""
        check_there(self._watch)
        with suppress(Away):
            return list(self._watch.view(max_age_s=LOOK_S).classes.values())
        return ()


# States of a class that the log names. All other states alternate frequently, so the log calls each of them `running`.
LOGGED = TROUBLED | {ClassState.STARTING, ClassState.NO_QUERIES}


def logged_state(view: ClassView) -> str:
    """Return the state of a class as the log names it."""
    state = view.condition.state
    return str(state) if state in LOGGED else "running"
