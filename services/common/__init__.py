"""What every part of the services may use: the folder and database of WEIR_HOME, and background threads.

Imports only `configs`.
"""
