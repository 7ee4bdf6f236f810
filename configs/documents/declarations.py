"""What people declare, one document a thing: `{kind: Tenant, name: acme, …}`, several of them in a YAML file.

    PriorityClass   what a tenant may have; gold, silver and bronze are there from the beginning
    Tenant          who has it; asks for less than its class gives, never for more
    Query           of a tenant
    Stream, Feed    what there is to read, and sources that bring several streams
    Session         of Spark, which reads all sources
    Mirror          remote objects that the service polls, and the stream of their changes

`live_class` is the one place where declarations become what runs. docs/catalog.md describes every field. What the SQL in
them means, and whether what they name is there, is not known here; `services.catalog.checks` looks at that.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AwareDatetime, Field, model_validator

from configs.base import Fraction, Name, Positive, Settings
from configs.classes.limits import ClassLimits, Count, ResultBytes
from configs.classes.live_class import LiveClass, Shards, Sql
from configs.classes.objectives import Objective
from configs.classes.plans import PlanSettings
from configs.classes.policies import Automatic, ClassPolicy
from configs.classes.priority_class import MaxDrop, PriorityClass, TrainMax, Victim, Weight
from configs.classes.utility import Utility
from configs.classes.window_settings import WindowSettings
from configs.documents.spark_streams import (
    FeedDefinition,
    OptionName,
    OptionText,
    SessionSettings,
    StreamDefinition,
    StreamsFile,
)
from configs.errors import Contradiction, InvalidInput, Several, UnknownName, nearest
from configs.yaml_loading import A_NAME, line_of, parse_documents, parse_model, read_text

DOCUMENTS_MAX = 20_000
# What a tenant may only raise, and what it may set as it likes; the rest, limits too, it may only lower.
AT_LEAST = ("delay_target_ms", "lendable", "max_drop")
AS_IT_LIKES = ("max_age_ms", "victim", "objective", "policy", "train_max", "utility", "windows", "plan")
MIRROR_OPTIONS = ("password",)


class PriorityClassDeclaration(PriorityClass):
    """What each tenant of the class is entitled to, and at most may have."""

    kind: Literal["PriorityClass"]
    lossless: bool = False
    """Never shed: when its queue is full its producers are held back."""

    limits: ClassLimits = ClassLimits()

    windows: WindowSettings = WindowSettings()
    """When windows with SLIDE AT MOST are answered."""

    plan: PlanSettings = PlanSettings()
    """Which of several equivalent plans queries run by."""


class Overrides(Settings):
    """What a tenant asks for instead of what its class gives; what is left out is as the class has it."""

    priority: Positive | None = None
    delay_target_ms: Positive | None = None
    min_share: Fraction | None = None
    lendable: Fraction | None = None
    borrow_limit: Fraction | None = None
    max_drop: MaxDrop | None = None
    max_age_ms: Positive | None = None
    victim: Victim | None = None
    objective: Objective | None = None
    policy: ClassPolicy | None = None
    train_max: TrainMax | None = None
    utility: Utility | None = None
    lossless: bool | None = None
    windows: WindowSettings | None = None
    plan: PlanSettings | None = None


class LimitOverrides(Settings):
    """The same for limits."""

    queries: Count | None = None
    groups: Count | None = None
    state_bytes: Count | None = None
    result_bytes: ResultBytes | None = None


class TenantDeclaration(Settings):
    """Who registers queries; all of a tenant's queries are one class of the running system."""

    kind: Literal["Tenant"]
    name: Name
    priority_class: Name
    overrides: Overrides = Overrides()
    limits: LimitOverrides = LimitOverrides()
    key: Name | None = None
    """Column by which its queries are split into shards, and by which victim `fair` is fair."""

    shards: Shards = 1
    """Parts by key, each with a host and turns of its own."""


class QueryDeclaration(Settings):
    """A continuous query; it may read the output of the tenant's earlier ones."""

    kind: Literal["Query"]
    tenant: Name
    name: Name
    sql: Sql
    utility: Utility | None = None
    """What its answers are worth by their latency; left out, as its class says."""

    weight: Weight = 1.0
    """How much the freshness of its output counts beside that of the tenant's other queries."""


class StreamDeclaration(StreamDefinition):
    """What queries read: brought by its source, by a feed, or by whoever has a key for it."""

    kind: Literal["Stream"]
    name: Name


class FeedDeclaration(FeedDefinition):
    """One source for several streams."""

    kind: Literal["Feed"]
    name: Name


class SessionDeclaration(SessionSettings):
    """The Spark session; there is one."""

    kind: Literal["Session"]
    name: Literal["spark"] = "spark"


class MirrorDeclaration(Settings):
    """Remote objects that the service polls as often as it is worth; what changes is a stream of the mirror's name."""

    kind: Literal["Mirror"]
    name: Name
    sql: Sql
    """CREATE MIRROR …"""

    options: Mapping[OptionName, OptionText] = {}
    """`password`: of the user that an address in the SQL names."""

    @model_validator(mode="after")
    def options_are_known(self) -> Self:
        for name in self.options:
            if name not in MIRROR_OPTIONS:
                # The name and not the value: it may be a secret.
                raise Contradiction(
                    "a mirror has no such option", "options", name, nearest(name, MIRROR_OPTIONS)
                )
        return self

    @property
    def password(self) -> str:
        return self.options.get("password", "")


class NoticeDeclaration(Settings):
    """An announcement of the operator to all tenants, such as a pause for maintenance."""

    kind: Literal["Notice"]
    name: Name
    text: Annotated[str, Field(min_length=1, max_length=500)]
    until: AwareDatetime | None = None
    """When it is over, with a time zone."""


Declaration = (
    PriorityClassDeclaration
    | TenantDeclaration
    | StreamDeclaration
    | FeedDeclaration
    | SessionDeclaration
    | MirrorDeclaration
    | QueryDeclaration
    | NoticeDeclaration
)
KINDS: Mapping[str, type[Declaration]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(Declaration)
}


@dataclass(frozen=True, slots=True)
class Resource:
    """The path of a kind's declarations in the API, and which keys may read them."""

    path: str
    for_admins: bool = False
    """Only administrators may read them."""

    for_all: bool = False
    """The key of any tenant may read them."""


RESOURCES: Mapping[str, Resource] = {
    "Query": Resource("queries"),
    "Tenant": Resource("tenants"),
    "PriorityClass": Resource("priority-classes"),
    "Feed": Resource("feeds", for_admins=True),
    "Mirror": Resource("mirrors", for_admins=True),
    "Stream": Resource("streams"),
    "Session": Resource("session", for_admins=True),
    "Notice": Resource("notices", for_all=True),
}
"""By kind, in the order in which declarations are deleted: what uses others comes before them."""
PRESETS: Sequence[PriorityClassDeclaration] = (
    PriorityClassDeclaration(kind="PriorityClass", name="gold", priority=6, delay_target_ms=300),
    PriorityClassDeclaration(kind="PriorityClass", name="silver", priority=3, delay_target_ms=400),
    PriorityClassDeclaration(kind="PriorityClass", name="bronze", priority=1, delay_target_ms=500),
)


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Which declaration is meant. Names differ in more than their letters' case."""

    kind: str
    name: str
    tenant: str = ""
    """Of a query."""

    def __str__(self) -> str:
        return f"{self.kind} {name_of(self)}"

    @property
    def folded(self) -> Ref:
        return Ref(self.kind, self.name.lower(), self.tenant.lower())


def ref_of(one: Declaration) -> Ref:
    return Ref(one.kind, one.name, one.tenant if isinstance(one, QueryDeclaration) else "")


def name_of(ref: Ref) -> str:
    """As people write it, after the kind."""
    return f"{ref.tenant}/{ref.name}" if ref.tenant else ref.name


def ref_named(kind: str, name: str) -> Ref:
    """As people write it: the kind without regard to case and in the plural too, a query as TENANT/QUERY."""
    kind = kind_named(kind)
    tenant, slash, query = name.partition("/")
    if (kind == "Query") != bool(slash):
        hint = "write TENANT/QUERY" if kind == "Query" else A_NAME
        raise InvalidInput(f"not the name of a {kind}", "NAME", name, hint)
    return Ref(kind, query, tenant) if slash else Ref(kind, name)


def kind_named(kind: str) -> str:
    """The kind that is meant."""
    names = {form: kind for kind in KINDS for form in (kind.lower(), *plurals(kind.lower()))}
    if kind.lower() not in names:
        raise UnknownName("no such kind", "KIND", kind, nearest(kind, KINDS))
    return names[kind.lower()]


def plurals(name: str) -> tuple[str, ...]:
    return (f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies")


def as_document(one: Declaration) -> dict[str, Any]:
    """As it was written."""
    fields = one.model_dump(mode="json", by_alias=True, exclude_unset=True)
    head = {"kind": one.kind, **({"tenant": one.tenant} if isinstance(one, QueryDeclaration) else {})}
    return {**head, "name": one.name, **fields}


# -- files -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Document:
    """A declaration, and where it stands."""

    declaration: Declaration
    place: str = ""
    """`tenants.yaml, document 2 (Tenant acme)`."""

    @property
    def ref(self) -> Ref:
        return ref_of(self.declaration)


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """The declarations of all files; InvalidInput names file and document of the first that is wrong."""
    documents: list[Document] = []
    for path in paths:
        documents += documents_of(read_text(path), str(path))
    check_differ(documents)
    return documents


def documents_of(text: str, file: str = "") -> list[Document]:
    """Return the declarations of one file; empty documents do not count. The error has all documents that are wrong."""
    parsed = [
        (number, data) for number, data in enumerate(parse_documents(text, file), start=1) if data is not None
    ]
    if not parsed:
        hint = f"write documents, each with `kind:`, one of {', '.join(KINDS)}"
        raise InvalidInput("the file is empty", file=file, hint=hint)
    if len(parsed) > DOCUMENTS_MAX:
        raise InvalidInput(
            f"a file has {DOCUMENTS_MAX:,} documents at most", value=len(parsed), file=file, hint="split it"
        )
    documents: list[Document] = []
    problems: list[InvalidInput] = []
    for number, data in parsed:
        try:
            documents.append(declared_in(data, f"{file}, document {number}" if file else ""))
        except InvalidInput as problem:
            if file:
                line = line_of(text, number - 1, problem.field)
                problem.file = f"{file}:{line}{problem.file.removeprefix(file)}"
            problems.append(problem)
    if problems:
        raise Several.of(problems)
    return documents


def declared_in(data: object, place: str = "") -> Document:
    """The declaration that a document holds."""
    kinds = f"one of {', '.join(KINDS)}"
    if not isinstance(data, dict):
        hint = "write `kind:` and `name:`, and what that kind needs"
        raise InvalidInput("a document must hold keys and values", value=data, file=place, hint=hint)
    if "kind" not in data:
        raise InvalidInput("required, but missing", "kind", file=place, hint=f"add `kind:`, {kinds}")
    kind = data["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnknownName("no such kind", "kind", kind, nearest(str(kind), KINDS), place)
    name = data.get("name")
    title = f"{kind} {name}" if isinstance(name, str) and len(name) < 100 else kind
    label = f"{place} ({title})" if place else title
    return Document(parse_model(KINDS[kind], data, label), label)


def check_differ(documents: Iterable[Document]) -> None:
    documents_by_ref: dict[Ref, Document] = {}
    for document in documents:
        first = documents_by_ref.setdefault(document.ref.folded, document)
        if first is not document:
            raise InvalidInput(
                f"declared before, in {first.place}",
                "name",
                document.ref.name,
                "keep one of the two",
                document.place,
            )


# -- what runs -------------------------------------------------------------------------------------------------


def live_class(
    tenant: TenantDeclaration,
    priority_class: PriorityClassDeclaration,
    streams: Iterable[StreamDeclaration],
    queries: Sequence[QueryDeclaration],
    fed: Container[str] = (),
) -> LiveClass:
    """The class that runs for a tenant. The streams are those that its queries read; queries come after what they read.

    `fed` has the names of the streams that feeds of several streams bring.
    """
    streams = list(streams)
    overrides = tenant.overrides.model_dump(exclude_none=True)
    limits = tenant.limits.model_dump(exclude_none=True)
    check_within(overrides, priority_class, tenant, "overrides")
    check_within(limits, priority_class.limits.filled(), tenant, "limits")
    terms = priority_class.model_dump(exclude={"kind"}) | overrides
    if (
        "objective" in overrides
        and "policy" not in overrides
        and not isinstance(priority_class.policy, Automatic)
    ):
        # The policy of the class serves another objective.
        terms["policy"] = None
    return parse_model(
        LiveClass,
        terms
        | {
            "name": tenant.name,
            "limits": terms["limits"] | limits,
            "key": tenant.key,
            "shards": tenant.shards,
            "streams": tuple(stream.declaration(stream.name) for stream in streams),
            "fed": tuple(
                stream.name for stream in streams if stream.source is not None or stream.name in fed
            ),
            "queries": {query.name: query.sql for query in queries},
            "utilities": {query.name: query.utility for query in queries if query.utility is not None},
            "weights": {query.name: query.weight for query in queries if query.weight != 1},
        },
        str(ref_of(tenant)),
    )


def hold_warnings(documents: Iterable[Document]) -> list[str]:
    """Return a warning for each priority class that makes producers wait because of a small `max_drop`."""
    classes = [document.declaration for document in documents]
    return [
        f"priority class {class_.name} may drop {class_.max_drop:.0%} of its input at most and has no max_age_ms: under more load"
        " its input is held back at the producers; declare max_age_ms to bound the age of answers instead"
        for class_ in classes
        if isinstance(class_, PriorityClassDeclaration) and class_.holds_back and not class_.lossless
    ]


def check_within(asked: Mapping[str, Any], given: Settings, tenant: TenantDeclaration, field: str) -> None:
    """Less than the class gives may be asked for, never more."""
    for name, value in asked.items():
        if name in AS_IT_LIKES:
            continue
        bound = getattr(given, name)
        if value < bound if name in AT_LEAST else value > bound:
            limit = f"{'at least' if name in AT_LEAST else 'at most'} {shown_bound(bound)}"
            raise InvalidInput(
                f"priority class {tenant.priority_class} gives {limit}",
                f"{field}.{name}",
                value,
                "stay within it, or choose another priority class",
                str(ref_of(tenant)),
            )


def shown_bound(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.12g}"


def streams_file(declarations: Iterable[Declaration]) -> StreamsFile | None:
    """What Spark is to bring; None where nothing has a source."""
    session = SessionSettings()
    streams: dict[str, StreamDeclaration] = {}
    feeds: dict[str, FeedDeclaration] = {}
    for declaration in declarations:
        match declaration:
            case StreamDeclaration():
                streams[declaration.name] = declaration
            case FeedDeclaration():
                feeds[declaration.name] = declaration
            case SessionDeclaration():
                session = SessionSettings.model_validate(bare(declaration))
    fed = {name for feed in feeds.values() for name in feed.streams}
    brought = {name: stream for name, stream in streams.items() if stream.source is not None or name in fed}
    if not brought:
        return None
    return parse_model(
        StreamsFile,
        {
            "session": session,
            "streams": {name: bare(stream) for name, stream in brought.items()},
            "feeds": {name: bare(feed) for name, feed in feeds.items()},
        },
    )


def bare(one: Settings) -> dict[str, Any]:
    return one.model_dump(by_alias=True, exclude={"kind", "name"})
