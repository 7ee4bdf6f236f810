"""Path of the repository's folder in which the tests run."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
