"""Mirrors: remote objects looked at as often as it is worth, and the stream of their changes."""
