"""Options of the connector, parsed once before anything is sent. Names are camelCase and case is ignored; values are text.

An OptionError is raised for an unknown option, a missing option, an invalid value, or an option of another use (such as an
option for writing when rows are read). The error says what to write instead. A value that may be secret never appears in a
message or a repr.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pyspark_weir.errors import OptionError

Use = Literal["write", "writeStream", "read", "readStream"]
WRITES: frozenset[Use] = frozenset({"write", "writeStream"})
READS: frozenset[Use] = frozenset({"read", "readStream"})

KEY_VARIABLE = "WEIR_API_KEY"
KEY = re.compile(r"weir_[A-Za-z0-9_-]{43}")
SCHEMES = ("grpc", "grpc+tls")
POLICIES = ("reject", "addNullable", "ignore")
# Maximum length of a producer's name in the protocol.
PRODUCER_CHARACTERS = 200
# Options of Spark itself, which Spark passes to the connector too.
OF_SPARK = frozenset({"checkpointlocation", "queryname"})
PERHAPS_SECRET = re.compile("key|token|secret|password|passwd|credential|auth|bearer", re.IGNORECASE)


@dataclass(frozen=True)
class Connection:
    """Settings of calls to a gateway: endpoints, API key and time limit."""

    endpoints: tuple[str, ...]
    api_key: str = field(repr=False)
    timeout_s: float
    authorities: bytes | None = field(default=None, repr=False)
    """PEM certificates of the authorities that sign gateways' certificates; None for the authorities of gRPC."""
    server_name: str | None = None
    """Name in the certificate of each gateway; None if the certificate has the host name of the endpoint."""


@dataclass(frozen=True)
class WriteOptions:
    connection: Connection
    stream: str
    timestamp_column: str | None
    schema_policy: str
    batch_rows: int
    producer: str | None


@dataclass(frozen=True)
class ReadOptions:
    connection: Connection
    class_: str
    query: str
    starting: str | int
    rows_max: int | None
    fail_on_data_loss: bool


# -- all options, with their parsers and defaults ------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    name: str
    parse: Callable[[str], Any]  # raises ValueError
    wanted: str
    uses: frozenset[Use]


def endpoints(text: str) -> tuple[str, ...]:
    return tuple(map(endpoint, text.split(",")))


def endpoint(text: str) -> str:
    parts = urlsplit(text.strip() if "://" in text else f"grpc://{text.strip()}")
    rest = (parts.path, parts.query, parts.fragment, parts.username)
    if parts.scheme not in SCHEMES or not parts.hostname or not parts.port or any(rest):
        raise ValueError
    return f"{parts.scheme}://{parts.netloc}"


def authorities(text: str) -> bytes:
    """Return the contents of the file. The driver reads the file, so executors do not need it."""
    try:
        return Path(text.strip()).read_bytes()
    except OSError:
        raise ValueError from None


def api_key(text: str) -> str:
    # A key that was read from a file may end with a newline.
    if not KEY.fullmatch(text.strip()):
        raise ValueError
    return text.strip()


def named(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def producer(text: str) -> str:
    if len(text) > PRODUCER_CHARACTERS:
        raise ValueError
    return named(text)


def class_and_query(text: str) -> tuple[str, str]:
    class_, query = text.strip().split("/")
    return named(class_), named(query)


def policy(text: str) -> str:
    return {policy.lower(): policy for policy in POLICIES}.get(text.strip().lower()) or refuse()


def seconds(text: str) -> float:
    value = float(text)
    return value if 0 <= value < float("inf") else refuse()


def at_least_one(text: str) -> int:
    value = int(text)
    return value if value >= 1 else refuse()


def starting_offsets(text: str) -> str | int:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return word
    value = int(word)
    return value if value >= 0 else refuse()


def true_or_false(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def refuse() -> Any:
    raise ValueError


OPTIONS = {
    option.name.lower(): option
    for option in (
        Option(
            "endpoint",
            endpoints,
            "grpc://host:port or grpc+tls://host:port, several separated by commas",
            WRITES | READS,
        ),
        Option("caFile", authorities, "the path of a readable PEM file", WRITES | READS),
        Option("serverName", named, "the name in the gateway's certificate", WRITES | READS),
        Option("apiKey", api_key, "a key: weir_ and 43 letters, digits, - or _", WRITES | READS),
        Option("timeoutSeconds", seconds, "a number of seconds, at least 0", WRITES | READS),
        Option("stream", named, "the name of a stream", WRITES),
        Option("timestampColumn", named, "the name of the column with the event time", WRITES),
        Option("schemaPolicy", policy, f"one of {', '.join(POLICIES)}", WRITES),
        Option("batchRows", at_least_one, "a number of rows, at least 1", WRITES),
        Option(
            "producer", producer, f"a name of at most {PRODUCER_CHARACTERS} characters", frozenset({"write"})
        ),
        Option("query", class_and_query, "class/query, as in gold/hot", READS),
        Option("startingOffsets", starting_offsets, "earliest, latest or the _seq of the first row", READS),
        Option("maxRowsPerTrigger", at_least_one, "a number of rows, at least 1", frozenset({"readStream"})),
        Option("failOnDataLoss", true_or_false, "true or false", READS),
    )
}


# -- functions that parse options ----------------------------------------------------------------------------------


def write_options(given: Mapping[str, str], use: Literal["write", "writeStream"]) -> WriteOptions:
    values = parsed(given, use, "stream")
    return WriteOptions(
        connection=connection(values),
        stream=values["stream"],
        timestamp_column=values.get("timestampcolumn"),
        schema_policy=values.get("schemapolicy", "reject"),
        # Default number of rows per message: with eight columns, a message of this size has about 4 MB.
        batch_rows=values.get("batchrows", 65_536),
        producer=values.get("producer"),
    )


def read_options(given: Mapping[str, str], use: Literal["read", "readStream"]) -> ReadOptions:
    values = parsed(given, use, "query")
    starting = values.get("startingoffsets", "earliest" if use == "read" else "latest")
    if use == "read" and starting == "latest":
        raise OptionError(
            "option startingOffsets: a batch that starts after the latest row would be empty (got 'latest'); "
            "write earliest or a number, or use readStream"
        )
    class_, query = values["query"]
    return ReadOptions(
        connection=connection(values),
        class_=class_,
        query=query,
        starting=starting,
        rows_max=values.get("maxrowspertrigger"),
        fail_on_data_loss=values.get("failondataloss", True),
    )


def connection(values: Mapping[str, Any]) -> Connection:
    return Connection(
        values["endpoint"],
        values["apikey"],
        values.get("timeoutseconds", 120.0),
        values.get("cafile"),
        values.get("servername"),
    )


def parsed(given: Mapping[str, str], use: Use, *required: str) -> dict[str, Any]:
    """Return the values of the given options. The key is read from the environment if no option gives it."""
    texts = {name.lower(): text for name, text in given.items() if name.lower() not in OF_SPARK}
    if "apikey" not in texts and os.environ.get(KEY_VARIABLE):
        texts["apikey"] = os.environ[KEY_VARIABLE]
    for name, text in texts.items():
        if name not in OPTIONS or use not in OPTIONS[name].uses:
            raise OptionError(why_not(name, text, use))
    for name in ("endpoint", "apikey", *required):
        if name not in texts:
            raise OptionError(why_missing(OPTIONS[name]))
    return {name: value_of(OPTIONS[name], text) for name, text in texts.items()}


def value_of(option: Option, text: str) -> Any:
    try:
        return option.parse(str(text))
    except (ValueError, KeyError):
        raise OptionError(
            f"option {option.name}: the value is not valid (got {shown(option.name, text)}); write {option.wanted}"
        ) from None


def why_missing(option: Option) -> str:
    or_else = f", or set {KEY_VARIABLE} for the driver before Spark starts" if option.name == "apiKey" else ""
    return f"option {option.name} is missing: give {option.wanted}{or_else}"


def why_not(name: str, text: str, use: Use) -> str:
    taken = [option.name for option in OPTIONS.values() if use in option.uses]
    if name in OPTIONS:
        does, other = ("writing", "reading") if use in WRITES else ("reading", "writing")
        if not OPTIONS[name].uses & (WRITES if use in WRITES else READS):
            what = f"is for {other}, not for {does}"
        else:
            what = f"is not for {use}, only for {', '.join(sorted(OPTIONS[name].uses))}"
        return f"option {OPTIONS[name].name} {what} (got {shown(name, text)}); leave it out"
    return f"no option {shown_name(name)} (got {shown(name, text)}); {nearest(name, taken)}"


def nearest(name: str, known: list[str]) -> str:
    lowered = {name_known.lower(): name_known for name_known in known}
    close = difflib.get_close_matches(name.lower().replace("_", ""), lowered, n=1, cutoff=0.6)
    listed = f"known: {', '.join(sorted(known))}"
    return f"did you mean {lowered[close[0]]}? ({listed})" if close else f"leave it out ({listed})"


def shown_name(name: str) -> str:
    return "(name hidden: it contains a key)" if "weir_" in name else name


def shown(name: str, text: object) -> str:
    """Return an option's value for an error message: as it was written, or a replacement text if it may be secret."""
    written = str(text)
    if PERHAPS_SECRET.search(name) or "weir_" in written.lower() or "@" in written:
        return "a value not shown here"
    return repr(written if len(written) <= 80 else f"{written[:79]}…")
