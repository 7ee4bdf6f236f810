"""Warnings about paths of sources at which no file exists yet. A feed cannot start before its files exist."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator

from configs.documents.declarations import Declaration, FeedDeclaration, StreamDeclaration, ref_of
from configs.documents.spark_streams import SourceSettings

FILES = ("parquet", "orc", "csv", "json", "text")
SEVERAL_FILES = "weir_feeder"


def missing_paths(declarations: Iterable[Declaration]) -> list[str]:
    """Return a warning for each path of a source that does not exist on this machine. Relative paths start at the current folder."""
    warnings = []
    for declared in declarations:
        match declared:
            case StreamDeclaration(source=SourceSettings() as source) | FeedDeclaration(source=source):
                start = f"{ref_of(declared)}: source.options.path: there is nothing at"
                warnings += [
                    f"{start} {place(path)}; the feed fails until the path exists" for path in missing(source)
                ]
    return warnings


def missing(source: SourceSettings) -> Iterator[str]:
    """Yield the paths of a source that do not exist. Paths on other machines are not checked."""
    if source.format not in (*FILES, SEVERAL_FILES):
        return
    paths = path_of(source)
    for path in map(str.strip, paths.split(",")) if source.format == SEVERAL_FILES else (paths,):
        inner = path.removeprefix("file://")
        is_here = inner and "://" not in inner and not inner.startswith("file:") and "{" not in inner
        if is_here and not os.path.exists(inner) and not glob.glob(inner):
            yield path


def path_of(source: SourceSettings) -> str:
    """Return the value of the source's option `path`, or an empty text."""
    return next((value for name, value in source.options.items() if name.lower() == "path"), "")


def place(path: str) -> str:
    if os.path.isabs(path) or "://" in path:
        return f"{path} yet"
    return (
        f"{path}, relative to {os.getcwd()} (for `weir up`, relative to the folder in which it was started)"
    )
