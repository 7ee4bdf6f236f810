"""`weir help`, and the layout of every command's help: description, examples, arguments, options."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version as version_of
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from configs.errors import UnknownName, nearest
from services.cli.examples import EXAMPLES
from services.cli.tables.sheet import screen, wrapped

# Maximum width of a label in the same line as its meaning; a wider label gets a line of its own above the meaning.
LABEL_MOST = 24
INDENT, GAP = 2, 2
WIDTH_MOST = 100
TYPES = {"Path": "<path>", "str": "<text>", "int": "<number>", "float": "<number>"}
TYPE = re.compile(r"<(?:list\[)?(Path|str|int|float)]?(?: range)?>")


def help(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Command to explain, as in `weir help query add`.", metavar="COMMAND"),
    ] = None,
) -> None:
    """Show the help of a command, or the list of all commands."""
    command_here: Any = ctx.find_root().command
    place: Any = ctx.find_root()
    for name in command or ():
        names = list(getattr(command_here, "commands", ()))
        if name not in names:
            raise UnknownName(
                "there is no command of this name", "COMMAND", " ".join(command or ()), nearest(name, names)
            )
        command_here = command_here.commands[name]
        place = type(place)(command_here, info_name=name, parent=place)
    typer.echo(command_here.get_help(place))


def version() -> None:
    """Print the version, as `weir --version` does."""
    typer.echo(f"weir {version_of('weir')}")


def help_text(command: Any, ctx: Any) -> str:
    """Return the help of a command or group, wrapped to the width of the terminal, at most WIDTH_MOST."""
    console = screen()
    console.width = min(console.width, WIDTH_MOST)
    with console.capture() as printed:
        for line in help_lines(console, command, ctx):
            line.rstrip()
            console.print(line)
    return printed.get()


def help_lines(console: Console, command: Any, ctx: Any) -> Iterator[Text]:
    yield from prose(console, command.get_usage(ctx))
    for paragraph in (command.help or "").split("\n\n"):
        yield Text()
        yield from prose(console, " ".join(paragraph.split()))
    examples = EXAMPLES.get(name_of(ctx), ())
    if examples:
        yield from heading("Examples")
        for example in examples:
            yield Text(f"  $ {example}", style="cyan")
    arguments: list[tuple[str, str]] = []
    options: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            place = arguments if parameter.param_type_name == "argument" else options
            place.append((named(record[0]), plain_notes(record[1])))
    for panel, commands in panels_of(command, ctx).items():
        yield from heading(panel)
        yield from pairs(console, commands)
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            yield from heading(title)
            yield from pairs(console, rows)
    if command.epilog:
        yield Text()
        yield from prose(console, command.epilog)


def panels_of(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the headings of a group, each with its commands and the first paragraph of each command's help."""
    panels: dict[str, list[tuple[str, str]]] = defaultdict(list)
    if hasattr(command, "list_commands"):
        for name in command.list_commands(ctx):
            member = command.get_command(ctx, name)
            text = " ".join((member.help or "").partition("\n\n")[0].split())
            panels[member.rich_help_panel or "Commands"].append((name, text))
    return panels


def name_of(ctx: Any) -> str:
    """Return a command as it is typed after `weir`."""
    return " ".join(str(ctx.command_path).split()[1:])


def named(label: str) -> str:
    """Return the label of an option or argument with the type of its value in plain words."""
    label = TYPE.sub(lambda match: TYPES[match[1]], label)
    return re.sub(r"^(\S+) <.*>$", r"\1", label) if not label.startswith("-") else label


def plain_notes(text: str) -> str:
    """Return the meaning of an option with its default and range in plain words."""
    text = re.sub(r"\[default: \((.*)\)(;|\])", r"[default: \1\2", text)
    text = re.sub(r"(\S+)<=x<=(\S+)\]", r"from \1 to \2]", text)
    return re.sub(r"x>=(\S+)\]", r"at least \1]", text)


def heading(title: str) -> Iterator[Text]:
    yield Text()
    yield Text(f"{title}:", style="bold")


def prose(console: Console, text: str) -> Sequence[Text]:
    return wrapped(console, Text(text), console.width)


def pairs(console: Console, rows: Iterable[tuple[str, str]]) -> Iterator[Text]:
    """Yield lines with a name on the left and its meaning on the right. The meaning of a very long name is below the name."""
    rows = list(rows)
    label = max((len(name) for name, _ in rows if len(name) <= LABEL_MOST), default=LABEL_MOST)
    start = INDENT + label + GAP
    for name, meaning in rows:
        lines = wrapped(console, Text(meaning), console.width - start)
        head = Text(" " * INDENT + name, style="bold cyan")
        if len(name) > label:
            yield head
            head = Text()
        for place, line in enumerate(lines):
            before = head if place == 0 else Text()
            yield Text.assemble(before, " " * (start - len(before)), line)
