"""The `weir` command: its subcommands, help and completion, and the choice of the service that they call.

Start with `main.py`; each subcommand is a file in `commands/`. Imports every other folder of `services`.
"""
