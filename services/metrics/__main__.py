"""Write docs/metrics.md from the table of metric families: `python -m services.metrics`."""

from services.metrics.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
