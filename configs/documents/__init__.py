"""Documents that users write: declarations of tenants, streams and queries, and of the streams that Spark reads.

Start with `declarations.py`. Imports `configs` and `configs.classes`.
"""
