"""Terms of SQL: expressions, aggregates, constants and types, from parsed text to plan expressions in normal form.

Start with `expressions.py`. Imports `engine.plan`, `engine.data` and `engine.expressions`.
"""
