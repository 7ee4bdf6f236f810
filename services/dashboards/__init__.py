"""Grafana dashboards as code: described as data (`boards`), rendered as Grafana's classic JSON (`render`), and pushed to a
Grafana server (`push`, `grafana`)."""
