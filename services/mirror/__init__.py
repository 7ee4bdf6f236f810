"""Mirrors: polling of remote objects, as often as the changes and uses of each object justify, and streams of the objects' changes."""
