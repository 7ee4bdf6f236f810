"""Operators of a class's network: small state machines, each of which takes a train of tuples and returns a train or None.

No operator knows its cost or its priority, or whether tuples are shed: the runner measures each call from outside.
"""
