"""Endurance test of a live system under changing load and random kills."""
