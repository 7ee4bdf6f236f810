"""Options of the connector, which are parsed before anything is sent. Names are camelCase, case is ignored, and values are text.

An OptionError is raised for an unknown option, a missing option, an invalid value, or an option of another use (such as an
option for writing when rows are read). The error says what to write instead. A value that may be secret never appears in a
message or a repr.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from pyspark_weir.errors import OptionError

Value = TypeVar("Value")
Use = Literal["write", "writeStream", "read", "readStream"]
WRITES: frozenset[Use] = frozenset({"write", "writeStream"})
READS: frozenset[Use] = frozenset({"read", "readStream"})
BOTH = WRITES | READS
WRITE: frozenset[Use] = frozenset({"write"})
READ_STREAM: frozenset[Use] = frozenset({"readStream"})

KEY_VARIABLE = "WEIR_API_KEY"
KEY = re.compile(r"weir_[A-Za-z0-9_-]{43}")
SCHEMES = ("grpc", "grpc+tls")
POLICIES = ("reject", "addNullable", "ignore")
# Maximum number of characters of a producer's name, as in the gateway's protocol.
PRODUCER_CHARACTERS = 200
# Options of Spark itself. Spark passes these options to the connector, which ignores them.
OF_SPARK = frozenset({"checkpointlocation", "queryname"})
PERHAPS_SECRET = re.compile("key|token|secret|password|passwd|credential|auth|bearer", re.IGNORECASE)


@dataclass(frozen=True)
class Connection:
    """Settings of calls to a gateway: endpoints, API key and time limit."""

    endpoints: tuple[str, ...]
    api_key: str = field(repr=False)
    timeout_s: float = 120.0
    authorities: bytes | None = field(default=None, repr=False)
    """PEM certificates of the authorities that sign gateways' certificates; None for the authorities of gRPC."""
    server_name: str | None = None
    """Name in the certificate of each gateway; None if the certificate has the host name of the endpoint."""


@dataclass(frozen=True)
class WriteOptions:
    connection: Connection
    stream: str
    timestamp_column: str | None = None
    schema_policy: str = "reject"
    batch_rows: int = 65_536
    """Maximum number of rows per message; a message with this number of rows and eight columns has about 4 MB."""
    producer: str | None = None


@dataclass(frozen=True)
class ReadOptions:
    connection: Connection
    class_: str
    query: str
    starting: str | int
    rows_max: int | None = None
    fail_on_data_loss: bool = True


@dataclass(frozen=True)
class Option:
    name: str
    field: str
    """Name of the field of Connection, WriteOptions or ReadOptions that gets the value."""
    parse: Callable[[str], Any]
    """Function that returns the parsed value, or raises ValueError or KeyError."""
    wanted: str
    """Description of a valid value, for error messages."""
    uses: frozenset[Use]


def accepted(value: Value, is_valid: object) -> Value:
    """Return the value if it is valid; otherwise raise ValueError."""
    if not is_valid:
        raise ValueError
    return value


def endpoints(text: str) -> tuple[str, ...]:
    return tuple(map(endpoint, text.split(",")))


def endpoint(text: str) -> str:
    parts = urlsplit(text.strip() if "://" in text else f"grpc://{text.strip()}")
    rest = (parts.path, parts.query, parts.fragment, parts.username)
    is_address = parts.scheme in SCHEMES and parts.hostname and parts.port and not any(rest)
    return accepted(f"{parts.scheme}://{parts.netloc}", is_address)


def authorities(text: str) -> bytes:
    """Return the contents of the file. The driver reads the file, so executors do not need it."""
    try:
        return Path(text.strip()).read_bytes()
    except OSError:
        raise ValueError from None


def api_key(text: str) -> str:
    # Spaces are removed, because a key that was read from a file may end with a newline.
    return accepted(text.strip(), KEY.fullmatch(text.strip()))


def named(text: str) -> str:
    return accepted(text.strip(), text.strip())


def producer(text: str) -> str:
    return accepted(named(text), len(text) <= PRODUCER_CHARACTERS)


def class_and_query(text: str) -> tuple[str, str]:
    class_, query = text.strip().split("/")
    return named(class_), named(query)


def policy(text: str) -> str:
    return {policy.lower(): policy for policy in POLICIES}[text.strip().lower()]


def seconds(text: str) -> float:
    return accepted(float(text), 0 <= float(text) < float("inf"))


def at_least_one(text: str) -> int:
    return accepted(int(text), int(text) >= 1)


def starting(text: str) -> str | int:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return word
    return accepted(int(word), int(word) >= 0)


def true_or_false(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


OPTIONS = {
    option.name.lower(): option
    for option in (
        Option(
            "endpoint",
            "endpoints",
            endpoints,
            "grpc://host:port or grpc+tls://host:port, several separated by commas",
            BOTH,
        ),
        Option("caFile", "authorities", authorities, "the path of a readable PEM file", BOTH),
        Option("serverName", "server_name", named, "the name in the gateway's certificate", BOTH),
        Option("apiKey", "api_key", api_key, "a key: weir_ and 43 letters, digits, - or _", BOTH),
        Option("timeoutSeconds", "timeout_s", seconds, "a number of seconds, at least 0", BOTH),
        Option("stream", "stream", named, "the name of a stream", WRITES),
        Option("timestampColumn", "timestamp_column", named, "the name of the event-time column", WRITES),
        Option("schemaPolicy", "schema_policy", policy, f"one of {', '.join(POLICIES)}", WRITES),
        Option("batchRows", "batch_rows", at_least_one, "a number of rows, at least 1", WRITES),
        Option("producer", "producer", producer, f"at most {PRODUCER_CHARACTERS} characters", WRITE),
        Option("query", "query", class_and_query, "class/query, as in gold/hot", READS),
        Option(
            "startingOffsets", "starting", starting, "earliest, latest or the _seq of the first row", READS
        ),
        Option("maxRowsPerTrigger", "rows_max", at_least_one, "a number of rows, at least 1", READ_STREAM),
        Option("failOnDataLoss", "fail_on_data_loss", true_or_false, "true or false", READS),
    )
}


def write_options(given: Mapping[str, str], use: Literal["write", "writeStream"]) -> WriteOptions:
    values = parsed(given, use, "stream")
    return WriteOptions(connection(values), **values)


def read_options(given: Mapping[str, str], use: Literal["read", "readStream"]) -> ReadOptions:
    values = {"starting": "earliest" if use == "read" else "latest"} | parsed(given, use, "query")
    if use == "read" and values["starting"] == "latest":
        raise OptionError(
            "option startingOffsets: a batch that starts after the latest row would be empty (got 'latest'); "
            "write earliest or a number, or use readStream"
        )
    class_, query = values.pop("query")
    return ReadOptions(connection(values), class_, query, **values)


def connection(values: dict[str, Any]) -> Connection:
    """Move the options of the connection from `values` to a Connection, and return the Connection."""
    names = [field.name for field in fields(Connection) if field.name in values]
    return Connection(**{name: values.pop(name) for name in names})


def parsed(given: Mapping[str, str], use: Use, *required: str) -> dict[str, Any]:
    """Return the values of the options in `given`, by field. Without the option apiKey, the key is read from the environment."""
    texts = {name.lower(): text for name, text in given.items() if name.lower() not in OF_SPARK}
    if "apikey" not in texts and os.environ.get(KEY_VARIABLE):
        texts["apikey"] = os.environ[KEY_VARIABLE]
    for name, text in texts.items():
        if name not in OPTIONS or use not in OPTIONS[name].uses:
            raise OptionError(why_not(name, text, use))
    for name in ("endpoint", "apikey", *required):
        if name not in texts:
            or_else = (
                f", or set {KEY_VARIABLE} for the driver before Spark starts" if name == "apikey" else ""
            )
            option = OPTIONS[name]
            raise OptionError(f"option {option.name} is missing: give {option.wanted}{or_else}")
    return {OPTIONS[name].field: value_of(OPTIONS[name], text) for name, text in texts.items()}


def value_of(option: Option, text: str) -> Any:
    try:
        return option.parse(str(text))
    except (ValueError, KeyError):
        raise OptionError(
            f"option {option.name}: the value is not valid (got {shown(option.name, text)}); write {option.wanted}"
        ) from None


def why_not(name: str, text: str, use: Use) -> str:
    taken = [option.name for option in OPTIONS.values() if use in option.uses]
    if name in OPTIONS:
        does, other = ("writing", "reading") if use in WRITES else ("reading", "writing")
        if not OPTIONS[name].uses & (WRITES if use in WRITES else READS):
            what = f"is for {other}, not for {does}"
        else:
            what = f"is not for {use}, only for {', '.join(sorted(OPTIONS[name].uses))}"
        return f"option {OPTIONS[name].name} {what} (got {shown(name, text)}); leave it out"
    # The unknown name is hidden if it contains an API key, which a user may have put in place of a name.
    shown_name = "(name hidden: it contains a key)" if "weir_" in name else name
    return f"no option {shown_name} (got {shown(name, text)}); {nearest(name, taken)}"


def nearest(name: str, known: list[str]) -> str:
    lowered = {name_known.lower(): name_known for name_known in known}
    close = difflib.get_close_matches(name.lower().replace("_", ""), lowered, n=1, cutoff=0.6)
    listed = f"known: {', '.join(sorted(known))}"
    return f"did you mean {lowered[close[0]]}? ({listed})" if close else f"leave it out ({listed})"


def shown(name: str, text: object) -> str:
    """Return the value of an option for an error message. A value that may be secret is replaced by a fixed text."""
    written = str(text)
    if PERHAPS_SECRET.search(name) or "weir_" in written.lower() or "@" in written:
        return "a value that may be secret"
    return repr(written if len(written) <= 80 else f"{written[:79]}…")
