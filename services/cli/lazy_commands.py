"""Subcommands that are imported only when they are used, so that `weir --version` and shell completion are fast.

Example:

    class Weir(LazyGroup):
        places = {"results": CommandPlace("services.cli.commands.results", "Running queries")}
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group
from typer.models import CommandFunctionType


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Name of the module that defines a command, and the heading under which the help lists the command."""

    module: str
    panel: str


class Commands(UserDict[str, Any]):
    """Dictionary of commands by name. Its values are CommandPlaces; reading a value imports the command, which replaces the CommandPlace."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.data[name], CommandPlace):
            self.data[name] = command_at(name, self.data[name])
        return self.data[name]


# Older scripts write `--json` instead of `--output json` (docs/cli.md).
JSON_ALIAS, JSON_OPTION = "--json", "--output=json"
EXIT_WRONG_INPUT = 2


class HelpLayout:
    """Help layout of Weir, for commands and for groups of commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        # The module of the layout is imported only to show help, so that other commands do not wait for the import.
        from services.cli.help_layout import help_text

        formatter.write(help_text(self, ctx))


class Command(HelpLayout, TyperCommand):
    """Command with the help layout of Weir, which accepts `--json` as a short form of `--output json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any("--output" in parameter.opts for parameter in self.params):
            end = args.index("--") if "--" in args else len(args)
            args = [JSON_OPTION if arg == JSON_ALIAS else arg for arg in args[:end]] + args[end:]
        with usage(ctx, self):
            return super().parse_args(ctx, args)


class HelpGroup(HelpLayout, TyperGroup):
    """Group of commands with the help layout of Weir."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with usage(ctx, self):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        with usage(ctx, self, args):
            return super().resolve_command(ctx, args)


class CommandGroup(typer.Typer):
    """Group of commands that are declared with `@group.command()`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=HelpGroup, **settings)

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        return super().command(name, **{"cls": Command, **settings})


@contextmanager
def usage(ctx: Any, command: Any, args: Sequence[str] = ()) -> Iterator[None]:
    """Raise InvalidInput if Typer rejects the command line. For a group of commands, `args` are the words from the subcommand on."""
    try:
        yield
    except typer.TyperException as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":
            # Typer expects that the help has been printed already. Weir's help layout has only returned the help, so the help is printed now.
            typer.echo(str(problem), err=True)
            raise typer.Exit(EXIT_WRONG_INPUT) from None
        # The module `usage` is imported only to report a mistake, so that correct command lines do not wait for the import.
        from services.cli.usage import usage_problem

        raise usage_problem(problem, ctx, command, args) from None


class LazyGroup(HelpGroup):
    """Group of commands that are imported when they are first used."""

    places: ClassVar[Mapping[str, CommandPlace]] = {}

    def __init__(self, **told: Any) -> None:
        super().__init__(**told)
        self.commands = Commands(self.places)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete names of commands without their descriptions, which would need an import of every command."""
        named = [TyperCommand(name) for name in self.commands]
        names = TyperGroup(name=self.name, commands=named, params=self.params)
        return names.shell_complete(type(ctx)(names), incomplete)


def command_at(name: str, place: CommandPlace) -> Any:
    target = getattr(import_module(place.module), name)
    if isinstance(target, typer.Typer):
        command: Any = get_group(target)
        command.name = name
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=Command)(target)
        command = get_command(alone)
    command.rich_help_panel = place.panel
    return command
