"""Forecasts of a class's objective under other policies and plans, from what was measured of it.

Start with `policy_forecast.py`. Imports `sim.run` and `engine`.
"""
