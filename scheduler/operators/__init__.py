"""Level 2: which operator of a class runs next, from measured costs and selectivities.

Start with `scheduler.py`; the policies are in `policies/`. Imports `configs` alone.
"""
