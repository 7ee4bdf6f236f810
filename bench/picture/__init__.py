"""Picture of README as SVG; `python -m bench.picture` writes it."""
