"""Check that the chart's dashboard files match this package. `python -m services.dashboards --write` writes the files."""

from __future__ import annotations

import sys
from pathlib import Path

from services.dashboards.all import FOLDER, documents
from services.dashboards.render import text_of

WRITE = "--write"


def main(arguments: list[str]) -> int:
    if arguments not in ([], [WRITE]):
        print(f"usage: python -m services.dashboards [{WRITE}]", file=sys.stderr)
        return 2
    texts = {f"{document['uid']}.json": text_of(document) for document in documents()}
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    if arguments == [WRITE]:
        write(FOLDER, texts)
        return 0
    differ = sorted(name for name in texts.keys() | there.keys() if texts.get(name) != there.get(name))
    for name in differ:
        print(
            f"{FOLDER.name}/{name} differs from services/dashboards: run `make dashboards`", file=sys.stderr
        )
    return 1 if differ else 0


def write(folder: Path, wanted: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
