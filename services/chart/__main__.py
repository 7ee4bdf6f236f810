"""Write what of the chart is written: python -m services.chart"""

from services.chart.written import FOLDER, written

for name, text in written().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
