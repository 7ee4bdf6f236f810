"""Routes of the API: one file per resource, with the models of its responses.

Start with `documents.py` (declarations) and `live.py` (the running system). Imports `services.api`.
"""
