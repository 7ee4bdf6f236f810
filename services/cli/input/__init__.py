"""Input of commands: documents, files of rows, and schemas inferred from files.

Start with `files.py`. Imports `configs` and `engine`.
"""
