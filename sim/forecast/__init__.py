"""Forecasts of a class's objective under other policies and plans, from the class's measurements.

Start with `policy_forecast.py`. This package imports `sim.run` and `engine`.
"""
