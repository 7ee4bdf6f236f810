"""Running query class: input, runner, load cycle, recorded steps, and recovery from these steps.

Start with `hosted_class.py`, then `runner.py` (pick an operator, take a train, run, deliver, measure).
It imports all other folders of `engine`.
"""
