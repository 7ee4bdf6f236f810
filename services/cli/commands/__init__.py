"""Subcommands of `weir`, a file for each or for a few that belong together.

Start with `apply.py`. Imports the other folders of `services.cli`.
"""
