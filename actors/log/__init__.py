"""Logs in shared memory: numbered frames with one writer and many readers, and the formats of their payloads.

Start with `segment_log.py`. Within `actors`, this package imports only `actors.runtime`.
"""
