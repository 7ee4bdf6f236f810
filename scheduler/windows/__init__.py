"""Schedules for periodic window results over shared synopses: when each result is computed, and which results are computed together."""

from scheduler.windows.scan_model import PeriodicQuery, ScanCosts
from scheduler.windows.tasks import Lateness, PeriodicScheduler, Task

__all__ = ["Lateness", "PeriodicQuery", "PeriodicScheduler", "ScanCosts", "Task"]
