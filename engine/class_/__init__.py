"""A query class at work: input, runner, load cycle, steps that are written down, and recovery from them.

Start with `hosted_class.py`, then `runner.py` (pick an operator, take a train, run, deliver, measure). Imports all of `engine`.
"""
