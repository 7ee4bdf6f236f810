"""Subcommands that are imported when they are asked for: `weir --version`, and a shell that completes, wait for none.

class Weir(LazyGroup):
    places = {"results": Place("services.cli.results", "What runs")}
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


@dataclass(frozen=True, slots=True)
class Place:
    """The module that has a command, or a group of them, by its name; and what it stands under in the help."""

    module: str
    panel: str


class Commands(UserDict[str, Any]):
    """By name; one whose place is known takes it when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.data[name], Place):
            self.data[name] = command_at(name, self.data[name])
        return self.data[name]


class LazyGroup(TyperGroup):
    """Of commands whose places are known."""

    places: ClassVar[Mapping[str, Place]] = {}

    def __init__(self, **told: Any) -> None:
        super().__init__(**told)
        self.commands = Commands(self.places)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names alone: what a command is for, only its module knows."""
        named = [TyperCommand(name) for name in self.commands]
        names = TyperGroup(name=self.name, commands=named, params=self.params)
        return names.shell_complete(type(ctx)(names), incomplete)


def command_at(name: str, place: Place) -> Any:
    found = getattr(import_module(place.module), name)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
        command.name = name
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = get_command(alone)
    command.rich_help_panel = place.panel
    return command
