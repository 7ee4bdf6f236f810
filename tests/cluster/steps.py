"""Log of what a test did on a node, with times: each step is printed at the end of the test run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Steps:
    lines: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add a line with the duration of the `with` block. If the block fails, the line ends with "(failed)"."""
        started, result = time.monotonic(), " (failed)"
        try:
            yield
            result = ""
        finally:
            self.add(f"{time.monotonic() - started:7.1f} s  {name}{result}")

    def add(self, line: str) -> None:
        self.lines.append(line)
        print(line, flush=True)
