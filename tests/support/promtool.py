"""Path of promtool, the tool of Prometheus that checks metrics and rules. Debian's package `prometheus` contains the tool."""

from __future__ import annotations

import shutil

import pytest

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="needs promtool: apt-get install prometheus (make tools does, as root)"
)


def promtool() -> str:
    assert PROMTOOL is not None
    return PROMTOOL
