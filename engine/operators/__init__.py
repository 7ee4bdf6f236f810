"""The boxes of a class's network: small state machines that take a train and give one.

None of them knows its cost, its priority, or that shedding exists: the runner measures around them.
"""
