"""Experiments of the five papers, repeated in virtual time, with a verdict on each claim."""
