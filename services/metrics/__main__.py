"""`python -m services.metrics` writes docs/metrics.md as the families are."""

from __future__ import annotations

from services.metrics.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
