"""Parts that `weir up` keeps running: system, service, feeds and mirrors, and their settings.

Start with `machine.py`; the command is `commands/up.py`.
"""
