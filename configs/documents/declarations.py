"""Declarations of users, each a YAML document such as `{kind: Tenant, name: acme, …}`; a file may hold several.

The kinds are:
    PriorityClass   terms for tenants: share, delay target, limits; gold, silver and bronze are predefined
    Tenant          a tenant of a priority class; it may ask for less than the class gives, never for more
    Query           a continuous query of a tenant
    Stream, Feed    a stream that queries read; a Spark source that supplies several streams
    Session         settings of Spark, which reads all sources
    Mirror          remote objects that the service polls, and the stream of their changes
    Notice          a message to all tenants

Only `live_class` turns declarations into a running class. docs/catalog.md describes every field. SQL and references to
other declarations are checked by `services.catalog.checks`, not by this module.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from configs.documents.run_times import RunTime
from configs.documents.spark_streams import (
    FeedDefinition,
    OptionName,
    OptionText,
    SessionSettings,
    StreamDefinition,
    StreamsFile,
)
from configs.errors import Contradiction, InvalidInput, Several, UnknownName, nearest
from configs.yaml_loading import A_NAME, line_of, parse_documents, parse_model

DOCUMENTS_MAX = 20_000
# A tenant may only raise the fields AT_LEAST above the values of its priority class. It may set the fields AS_IT_LIKES to any value.
# A tenant may only lower the fields of its priority class that are neither in AT_LEAST nor in AS_IT_LIKES.
AT_LEAST = ("delay_target_ms", "lendable", "max_drop")
AS_IT_LIKES = ("max_age_ms", "victim", "objective", "policy", "train_max", "utility", "windows", "plan")
MIRROR_OPTIONS = ("password",)


class PriorityClassDeclaration(PriorityClass):
    """Terms of a priority class: what each of its tenants is entitled to, and the limits for each tenant."""

    kind: Literal["PriorityClass"]
    lossless: bool = False
    """Never drop input: while the queue is full, producers have to wait."""

    limits: ClassLimits = ClassLimits()

    windows: WindowSettings = WindowSettings()
    """Schedule of windows with SLIDE AT MOST."""

    plan: PlanSettings = PlanSettings()
    """Choice among equivalent plans of queries."""


class Overrides(Settings):
    """Terms of a tenant that replace terms of its priority class. Fields that are left out keep the value of the priority class."""

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
    """Limits of a tenant that replace limits of its priority class. Fields that are left out keep the value of the priority class."""

    queries: Count | None = None
    groups: Count | None = None
    state_bytes: Count | None = None
    result_bytes: ResultBytes | None = None


class TenantDeclaration(Settings):
    """Tenant that registers queries. All queries of a tenant are one class of the running system."""

    kind: Literal["Tenant"]
    name: Name
    priority_class: Name
    overrides: Overrides = Overrides()
    limits: LimitOverrides = LimitOverrides()
    key: Name | None = None
    """Column by which the tenant's queries are split into shards. `victim: fair` spreads drops evenly over its values."""

    shards: Shards = 1
    """Number of shards into which the tenant's class is split by `key`; each shard has its own host and turns."""


class QueryDeclaration(RunTime):
    """Continuous query; it may read the output of earlier queries of the tenant."""

    kind: Literal["Query"]
    tenant: Name
    name: Name
    sql: Sql
    utility: Utility | None = None
    """Utility of the query's answers by response time. Default: the utility that the tenant's class declares."""

    weight: Weight = 1.0
    """Weight of the freshness of the query's output compared with the tenant's other queries."""


class StreamDeclaration(StreamDefinition):
    """Stream that queries read. The rows come from the stream's source, from a feed, or from producers with a key for the stream."""

    kind: Literal["Stream"]
    name: Name


class FeedDeclaration(FeedDefinition):
    """Spark source that supplies several streams."""

    kind: Literal["Feed"]
    name: Name


class SessionDeclaration(SessionSettings):
    """Settings of the Spark session; there is only one session."""

    kind: Literal["Session"]
    name: Literal["spark"] = "spark"


class MirrorDeclaration(Settings):
    """Mirror: remote objects that the service polls. Changes of the objects are rows of a stream with the mirror's name."""

    kind: Literal["Mirror"]
    name: Name
    sql: Sql
    """CREATE MIRROR statement."""

    options: Mapping[OptionName, OptionText] = {}
    """Options of the mirror. `password` is the password of the user that an address in the SQL names."""

    @model_validator(mode="after")
    def options_are_known(self) -> Self:
        for name in self.options:
            if name not in MIRROR_OPTIONS:
                # The error shows the name of the option but not the value, which may be a secret.
                raise Contradiction(
                    "a mirror has no option of this name", "options", name, nearest(name, MIRROR_OPTIONS)
                )
        return self

    @property
    def password(self) -> str:
        return self.options.get("password", "")


class NoticeDeclaration(Settings):
    """Message of the administrator to all tenants, such as a pause for maintenance."""

    kind: Literal["Notice"]
    name: Name
    text: Annotated[str, Field(min_length=1, max_length=500)]
    until: AwareDatetime | None = None
    """Time, with time zone, after which the notice is no longer shown."""


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
    """API path of the declarations of a kind, and the keys that may read these declarations."""

    path: str
    for_admins: bool = False
    """True if only administrators may read the declarations."""

    for_all: bool = False
    """True if the key of any tenant may read the declarations."""


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
"""Resource of each kind, in the order in which declarations are deleted: a declaration comes before the declarations that it uses."""
PRESETS: Sequence[PriorityClassDeclaration] = (
    PriorityClassDeclaration(kind="PriorityClass", name="gold", priority=6, delay_target_ms=300),
    PriorityClassDeclaration(kind="PriorityClass", name="silver", priority=3, delay_target_ms=400),
    PriorityClassDeclaration(kind="PriorityClass", name="bronze", priority=1, delay_target_ms=500),
)


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Reference to a declaration by kind, tenant and name. Upper and lower case are the same."""

    kind: str
    name: str
    tenant: str = ""
    """Tenant of a query; empty for other kinds."""

    def __str__(self) -> str:
        return f"{self.kind} {name_of(self)}"

    @property
    def folded(self) -> Ref:
        return Ref(self.kind, self.name.lower(), self.tenant.lower())


def ref_of(one: Declaration) -> Ref:
    return Ref(one.kind, one.name, one.tenant if isinstance(one, QueryDeclaration) else "")


def name_of(ref: Ref) -> str:
    """Return the name as users write it after the kind: `NAME`, or `TENANT/QUERY` for a query."""
    return f"{ref.tenant}/{ref.name}" if ref.tenant else ref.name


def ref_named(kind: str, name: str) -> Ref:
    """Return the reference for a kind (in upper or lower case, singular or plural) and a name, TENANT/QUERY for a query."""
    kind = kind_named(kind)
    tenant, slash, query = name.partition("/")
    if (kind == "Query") != bool(slash):
        hint = "write TENANT/QUERY" if kind == "Query" else A_NAME
        raise InvalidInput(f"the name of a {kind} does not have the right form", "NAME", name, hint)
    return Ref(kind, query, tenant) if slash else Ref(kind, name)


def kind_named(kind: str) -> str:
    """Return the kind for a text in upper or lower case, singular or plural; raise UnknownName if no kind matches."""
    for candidate in KINDS:
        name = candidate.lower()
        if kind.lower() in (name, f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies"):
            return candidate
    raise UnknownName("there is no kind of document with this name", "KIND", kind, nearest(kind, KINDS))


def as_document(one: Declaration) -> dict[str, Any]:
    """Return the declaration as a document, with only the fields that the user has set."""
    fields = one.model_dump(mode="json", by_alias=True, exclude_unset=True)
    head = {"kind": one.kind, **({"tenant": one.tenant} if isinstance(one, QueryDeclaration) else {})}
    return {**head, "name": one.name, **fields}


@dataclass(frozen=True, slots=True)
class Document:
    """Declaration that was read from a file, with the name of the file and the declaration's position in the file."""

    declaration: Declaration
    place: str = ""
    """File and position, such as `tenants.yaml, document 2 (Tenant acme)`."""

    @property
    def ref(self) -> Ref:
        return ref_of(self.declaration)


def documents_of(text: str, file: str = "") -> list[Document]:
    """Return the declarations of one file without empty documents; raise an error with the problems of all documents."""
    parsed = [
        (number, data) for number, data in enumerate(parse_documents(text, file), start=1) if data is not None
    ]
    if not parsed:
        hint = f"write documents, each with `kind:`, one of {', '.join(KINDS)}"
        raise InvalidInput("the file contains no documents", file=file, hint=hint)
    if len(parsed) > DOCUMENTS_MAX:
        title = f"the file has more than {DOCUMENTS_MAX:,} documents"
        hint = "split the file into several files"
        raise InvalidInput(title, value=len(parsed), file=file, hint=hint)
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
    """Return the declaration in a document."""
    kinds = f"one of {', '.join(KINDS)}"
    if not isinstance(data, dict):
        hint = "write `kind:` and `name:`, and the fields of that kind"
        raise InvalidInput("a document must be a map of keys to values", value=data, file=place, hint=hint)
    if "kind" not in data:
        raise InvalidInput(
            "a required value is missing", "kind", file=place, hint=f"add `kind:` with {kinds}"
        )
    kind = data["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnknownName(
            "there is no kind of document with this name", "kind", kind, nearest(str(kind), KINDS), place
        )
    name = data.get("name")
    title = f"{kind} {name}" if isinstance(name, str) and len(name) < 100 else kind
    label = f"{place} ({title})" if place else title
    return Document(parse_model(KINDS[kind], data, label), label)


def check_differ(documents: Iterable[Document]) -> None:
    documents_by_ref: dict[Ref, Document] = {}
    for document in documents:
        first = documents_by_ref.setdefault(document.ref.folded, document)
        if first is not document:
            title = f"already declared in {first.place}"
            hint = "remove one of the two documents"
            raise InvalidInput(title, "name", document.ref.name, hint, document.place)


def live_class(
    tenant: TenantDeclaration,
    priority_class: PriorityClassDeclaration,
    streams: Iterable[StreamDeclaration],
    queries: Sequence[QueryDeclaration],
    fed: Container[str] = (),
) -> LiveClass:
    """Return the class that runs for a tenant. `streams` has the streams that its queries read. A query comes after the
    queries that it reads. `fed` has the names of the streams that feeds supply.
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
        # The tenant has another objective than its priority class, so the policy of the priority class is not used for the tenant.
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
    """Return a warning for each priority class with a `max_drop` that is small enough to make producers wait."""
    classes = [document.declaration for document in documents]
    return [
        f"priority class {class_.name} may drop at most {class_.max_drop:.0%} of its input and has no max_age_ms: under more load"
        " its producers have to wait; declare max_age_ms to drop old tuples instead"
        for class_ in classes
        if isinstance(class_, PriorityClassDeclaration) and class_.holds_back and not class_.lossless
    ]


def check_within(asked: Mapping[str, Any], given: Settings, tenant: TenantDeclaration, field: str) -> None:
    """Raise InvalidInput if a tenant asks for more than its priority class permits."""
    for name, value in asked.items():
        if name in AS_IT_LIKES:
            continue
        bound = getattr(given, name)
        if value < bound if name in AT_LEAST else value > bound:
            limit = f"{'at least' if name in AT_LEAST else 'at most'} {shown_bound(bound)}"
            title = f"priority class {tenant.priority_class} gives {limit}"
            hint = f"give {limit}, or choose another priority class"
            raise InvalidInput(title, f"{field}.{name}", value, hint, str(ref_of(tenant)))


def shown_bound(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.12g}"


def streams_file(declarations: Iterable[Declaration]) -> StreamsFile | None:
    """Return the streams and feeds that Spark reads; None if no stream has a source."""
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
