"""The `weir` command: its subcommands, help, completion, and which service they use.

Start with `main.py`; each subcommand is a file in `commands/`. Imports every other folder of `services`.
"""
