"""Settings of the service: `weir up`, its REST server, and the values of the Helm chart.

Start with `service_settings.py`. Imports the other folders of `configs`.
"""
