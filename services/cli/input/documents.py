"""Reader of the documents that a command line names by files, folders and standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from configs.documents.declarations import Document, check_differ, documents_of
from configs.errors import InvalidInput, Several
from configs.yaml_loading import FILE_BYTES_MAX, read_text
from services.cli.usage import missing

STDIN = Path("-")
STDIN_NAME = "standard input"
ENDINGS = (".yaml", ".yml", ".json")

FilesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="FILE", help="Files or folders of documents, as with --file.")
]
FilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        "-f",
        help="YAML or JSON file of documents, folder of such files, or `-` for standard input; may be repeated.",
    ),
]
RecursiveOption = Annotated[
    bool, typer.Option("--recursive", "-R", help="Read the subfolders of folders, too.")
]


def wanted_documents(
    files: Iterable[Path] | None, more: Iterable[Path] | None = None, recursive: bool = False
) -> list[Document]:
    """Return the documents of all files; an error lists every wrong document with its file and position."""
    named = [*(files or ()), *(more or ())]
    if not named:
        raise missing("--file", "write -f FILE, -f FOLDER, or -f - for standard input")
    documents: list[Document] = []
    problems: list[InvalidInput] = []
    for path in (file for name in named for file in files_of(name, recursive)):
        try:
            documents += documents_of(text_of(path), STDIN_NAME if path == STDIN else str(path))
        except Several as several:
            problems += several.problems
        except InvalidInput as problem:
            problems.append(problem)
    if problems:
        raise Several.of(problems)
    check_differ(documents)
    return documents


def files_of(path: Path, recursive: bool) -> Iterator[Path]:
    """Yield `path` if it is a file. For a folder, yield the files inside in the order of their names."""
    if path == STDIN or not path.is_dir():
        yield path
        return
    inside = sorted(path.rglob("*") if recursive else path.iterdir())
    files = [file for file in inside if file.suffix.lower() in ENDINGS and file.is_file()]
    if not files:
        hint = "name another folder" if recursive else "name another folder, or add -R to read subfolders"
        raise InvalidInput(f"the folder has no {', '.join(ENDINGS)} file", "--file", str(path), hint)
    yield from files


def text_of(path: Path) -> str:
    if path != STDIN:
        return read_text(path)
    text = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise InvalidInput(
            "the input has more than 10 MB",
            file=STDIN_NAME,
            hint="pipe declarations only; send rows of data with `weir rows put`",
        )
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        title = f"the input cannot be read: byte {error.start + 1} is not UTF-8 text"
        raise InvalidInput(title, file=STDIN_NAME, hint="send UTF-8 text") from None
