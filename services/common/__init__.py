"""Helpers for all parts of the services: the folder and database of WEIR_HOME, and background threads.

This folder imports only `configs`.
"""
