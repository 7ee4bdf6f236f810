"""Input of commands: documents, files of rows, inferred schemas.

Start with `files.py`. Imports `configs` and `engine`.
"""
