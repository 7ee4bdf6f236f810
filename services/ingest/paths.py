"""Warnings of files that are not there yet: a feed cannot start before they are."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator

from configs.documents.declarations import Declaration, FeedDeclaration, StreamDeclaration, ref_of
from configs.documents.spark_streams import SourceSettings

FILES = ("parquet", "orc", "csv", "json", "text")
SEVERAL_FILES = "weir_feeder"


def missing_paths(declarations: Iterable[Declaration]) -> list[str]:
    """A warning for each path of a source where this machine has nothing, seen from the current folder."""
    warnings = []
    for declared in declarations:
        match declared:
            case StreamDeclaration(source=SourceSettings() as source) | FeedDeclaration(source=source):
                start = f"{ref_of(declared)}: source.options.path: nothing is at"
                warnings += [
                    f"{start} {place(path)}; the feed fails until it is there" for path in missing(source)
                ]
    return warnings


def missing(source: SourceSettings) -> Iterator[str]:
    """The paths of a source that are not there. Paths elsewhere are not looked at."""
    if source.format not in (*FILES, SEVERAL_FILES):
        return
    paths = next((value for name, value in source.options.items() if name.lower() == "path"), "")
    for path in map(str.strip, paths.split(",")) if source.format == SEVERAL_FILES else (paths,):
        inner = path.removeprefix("file://")
        is_here = inner and "://" not in inner and not inner.startswith("file:") and "{" not in inner
        if is_here and not os.path.exists(inner) and not glob.glob(inner):
            yield path


def place(path: str) -> str:
    if os.path.isabs(path) or "://" in path:
        return f"{path} yet"
    return f"{path}, seen from {os.getcwd()} (`weir up` sees it from the folder in which it was started)"
