"""`weir config`: the settings of the `weir` command and where each comes from, and the settings that `weir up` would use.

Secrets are not shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
import typer
import yaml
from sqlalchemy.engine import make_url

from configs.errors import InvalidInput
from configs.service.chart_values import ChartValues, merged
from configs.yaml_loading import parse_model, read_data
from services.catalog.redaction import HIDDEN
from services.cli.lazy_commands import CommandGroup
from services.cli.tables.catalog_views import OutputOption, lines_table, show
from services.cli.upkeep.up_settings import settings_of
from services.cli.usage import excluded
from services.common.weir_home import CATALOG, ENDPOINT, HOME, PEPPER, PEPPER_FILE, Home, home_of
from services.remote.wire import CA_FILE, KEY, checked_endpoint

ENVIRONMENT, DEFAULT, ABSENT = "environment", "default", "nowhere"


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of the `weir` command: its value, its meaning, and where the value comes from (such as an environment variable)."""

    name: str
    value: str | None
    source: str
    meaning: str


config = CommandGroup(
    invoke_without_command=True, help="Show the settings of the `weir` command, and where each comes from."
)


@config.callback()
def without_command(ctx: typer.Context, output: OutputOption = "table") -> None:
    """Show the settings of the `weir` command, and where each comes from."""
    if ctx.invoked_subcommand is None:
        show_settings(output)


@config.command("show")
def show_settings(output: OutputOption = "table") -> None:
    """Show the settings of the `weir` command, and where each comes from."""
    values = list(settings(os.environ))
    heads = ("name", "value", "from")
    show(
        output,
        [asdict(setting) for setting in values],
        lambda: lines_table(
            heads, ((setting.name, setting.value or "–", setting.source) for setting in values)
        ),
    )


@config.command("render")
def render(
    file: Annotated[
        Path | None, typer.Option("--config", "-c", help="File of settings, as for `weir up`.")
    ] = None,
    values: Annotated[
        list[Path] | None,
        typer.Option(
            "--values",
            "-f",
            help="Values file of the Helm chart: show the settings that its pod gets; may be repeated.",
        ),
    ] = None,
) -> None:
    """Show all settings, including defaults, that `weir up` would use with a settings file or in a pod of the Helm chart."""
    if file is not None and values:
        raise excluded("--values", None, "--config")
    rendered = chart_values(values).up_settings() if values else settings_of(file, {})
    content = rendered.model_dump(mode="json", exclude_none=True)
    typer.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), nl=False)


def chart_values(files: Iterable[Path]) -> ChartValues:
    """Return the chart's default values merged with the values in `files`. As in Helm, later files override earlier files."""
    values: dict[str, Any] = ChartValues().model_dump(mode="json", by_alias=True, exclude_none=True)
    for path in files:
        said = read_data(path)
        if said is not None and not isinstance(said, dict):
            hint = "write a values file of the chart"
            raise InvalidInput(
                "the file must be a map of keys to values", value=said, file=str(path), hint=hint
            )
        values = merged(values, said or {})
    return parse_model(ChartValues, values, ", ".join(map(str, files)))


def settings(environ: Mapping[str, str]) -> Iterator[Setting]:
    home = home_of(environ)
    yield Setting(HOME, str(home.folder), source_of(environ, HOME), "folder of catalog, keys and endpoint")
    catalog = shown_dsn(home.dsn) if home.dsn else str(home.database)
    yield Setting(CATALOG, catalog, source_of(environ, CATALOG), "database of the catalog")
    yield pepper(home)
    yield from of_service(environ, home)
    meaning, source = (
        "CA certificates to verify the service's certificate with",
        source_of(environ, CA_FILE, ABSENT),
    )
    yield Setting(CA_FILE, environ.get(CA_FILE) or None, source, meaning)


def pepper(home: Home) -> Setting:
    path = home.folder / PEPPER_FILE
    source = (
        ENVIRONMENT if home.given_pepper else str(path) if path.is_file() else "created with the first key"
    )
    is_there = home.given_pepper is not None or path.is_file()
    return Setting(PEPPER, HIDDEN if is_there else None, source, "secret that API keys are hashed with")


def of_service(environ: Mapping[str, str], home: Home) -> Iterator[Setting]:
    """Yield two settings: the address of the service that commands call, and the API key that commands send to the service."""
    address, here = environ.get(ENDPOINT), home.served_at()
    if address:
        endpoint, source = checked_endpoint(address), ENVIRONMENT
        meaning = "service that all commands call"
    elif here is not None:
        endpoint, source = here, str(home.endpoint)
        meaning = "service that runs from this home"
    else:
        endpoint, source = None, ABSENT
        meaning = "no address of a service; commands open the catalog of this home directly"
    yield Setting(ENDPOINT, endpoint, source, meaning)
    key_source = ABSENT
    if environ.get(KEY):
        key_source = ENVIRONMENT
    elif here is not None and not address and home.admin_key.is_file():
        key_source = str(home.admin_key)
    key = None if key_source is ABSENT else HIDDEN
    yield Setting(KEY, key, key_source, "key that commands send to the service")


def shown_dsn(dsn: str) -> str:
    """Return the URL of a database without its password and parameters, which may be secret."""
    try:
        return make_url(dsn).set(query={}).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return HIDDEN


def source_of(environ: Mapping[str, str], name: str, otherwise: str = DEFAULT) -> str:
    return ENVIRONMENT if environ.get(name) else otherwise
