"""Scheduling: turns of classes, choice of a class's next operator, and shares of capacity. It reads neither clock nor environment."""
