"""Level 2: choice of the operator of a class that runs next, from measured costs and selectivities.

Start with `scheduler.py`; the policies are in `policies/`. This package imports only `configs`.
"""
