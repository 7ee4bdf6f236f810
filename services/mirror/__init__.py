"""Mirrors: copies of remote objects, polled as often as their changes and uses justify, and streams of their changes."""
