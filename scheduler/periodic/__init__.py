"""Periodic window results over shared synopses: when each is computed, and which of them together."""

from scheduler.periodic.build import build_periodic
from scheduler.periodic.model import PeriodicQuery, ScanCosts
from scheduler.periodic.tasks import Lateness, PeriodicScheduler, Task

__all__ = ["Lateness", "PeriodicQuery", "PeriodicScheduler", "ScanCosts", "Task", "build_periodic"]
