"""Measures of answers: ideal cost of an answer, and quality of a query's answers.

Start with `answer_quality.py`. Imports `engine.network`, `engine.data` and `loadshed`.
"""
