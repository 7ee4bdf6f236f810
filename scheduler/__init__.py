"""Scheduling: turns of classes, choice of a class's next operator, and shares of capacity. The package reads no clock and no environment."""
