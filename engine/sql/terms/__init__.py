"""Terms of SQL: turns parsed expressions, aggregates, constants and types into plan expressions in normal form.

Start with `expressions.py`. Imports `engine.plan`, `engine.data` and `engine.expressions`.
"""
