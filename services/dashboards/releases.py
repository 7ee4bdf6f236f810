"""Choice of a release on a dashboard: every series is selected by its labels `namespace` and `release`.

The chart's PodMonitors add these labels. Series of a service outside Kubernetes do not have them, and are shown while everything is
selected.
"""

from __future__ import annotations

import re

from services.dashboards.boards import Variable

RELEASE_LABELS = ("namespace", "release")
NAMESPACE = Variable("namespace", "Namespace", "label_values(weir_build_info, namespace)")
RELEASE = Variable("release", "Release", 'label_values(weir_build_info{namespace=~"$namespace"}, release)')
SELECTOR = "{" + ", ".join(f'{label}=~"${label}"' for label in RELEASE_LABELS) + "}"
# Names of the series that get a label selector: Weir's metrics and recording rules, and the series of Prometheus about alerts.
SERIES = re.compile(r"(?<![\w:])(?:(?:[a-z_]+:)?weir_[a-z0-9_]+(?::[a-z0-9_]+)?|ALERTS)(?![\w:])")


def selected(expr: str) -> str:
    """Return PromQL with the selected namespace and release in the selector of every series."""
    return SERIES.sub(rf"\g<0>{SELECTOR}", expr).replace("}{", ", ")
