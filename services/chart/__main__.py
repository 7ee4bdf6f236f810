"""Write the chart's generated files: `python -m services.chart`."""

from services.chart.written import FOLDER, written

for name, text in written().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
