"""Measures of answers: ideal cost of an answer, and how good the answers of a query were.

Start with `answer_quality.py`. Imports `engine.network`, `engine.data` and `loadshed`.
"""
