"""Write docs/metrics.md from the table of metric families: `python -m services.metrics`."""

from __future__ import annotations

from services.metrics.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
