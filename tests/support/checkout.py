"""The folder of the checkout that the tests run in."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
