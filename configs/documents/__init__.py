"""Documents that people write: declarations of tenants, streams and queries, and the streams that Spark supplies.

Start with `declarations.py`. Imports `configs` and `configs.classes`.
"""
