"""Parts of a running query class: its input, its runner, its load cycle, its recorded steps, and its recovery from these steps.

Start with `hosted_class.py`, then `runner.py` (pick an operator, take a train, run, deliver, measure).
It imports all other folders of `engine`.
"""
