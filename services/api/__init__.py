"""REST API and web console: keys, sessions, rate limits, problem responses, and the FastAPI application with its routes.

Start with `app.py`; `routes/` has a file per resource. Imports `services.watch`, `services.catalog` and `services.results`.
"""
