"""Subcommands of `weir`, one module per command or group of related commands.

Start with `apply.py`. Imports the other folders of `services.cli`.
"""
