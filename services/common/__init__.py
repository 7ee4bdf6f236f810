"""Helpers of every part of the services: the folder and database of WEIR_HOME, and background threads.

Imports only `configs`.
"""
