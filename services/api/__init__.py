"""REST and console: keys, sessions, limits, problems, and the application around the routes.

Start with `app.py`; `routes/` has a file per resource. Imports `services.watch`, `services.catalog` and `services.results`.
"""
