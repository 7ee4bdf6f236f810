"""Prometheus's own tool, which checks metrics and rules; it comes with Debian's package `prometheus`."""

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
