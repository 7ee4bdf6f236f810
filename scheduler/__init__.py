"""Scheduling: turns of classes, choice of a class's next operator, and shares of capacity. It reads no clock and no environment variable."""
