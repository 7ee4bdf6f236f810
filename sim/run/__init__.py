"""One simulated class host: operators as cost models, arrivals, queues and random generators.

Start with `simulated_host.py`. Imports the pure ring and `configs`.
"""
