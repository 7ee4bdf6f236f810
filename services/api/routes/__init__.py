"""Routes of the API, a file per resource with its models.

Start with `documents.py` (what is declared) and `live.py` (what runs). Imports `services.api`.
"""
