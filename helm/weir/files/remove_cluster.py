"""Delete the RayCluster and wait until it is gone, before `helm uninstall` deletes the Secrets that its clean-up of Redis needs.

The arguments are the namespace, the name of the RayCluster and the maximum number of seconds.
"""

import http.client
import os
import ssl
import sys
import time
from pathlib import Path

ACCOUNT = Path(os.environ.get("WEIR_ACCOUNT_FOLDER", "/var/run/secrets/kubernetes.io/serviceaccount"))
PAUSE_S = 2.0


def request(method: str, path: str) -> int:
    """Return the status code of the Kubernetes API."""
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
    token = (ACCOUNT / "token").read_text(encoding="utf-8").strip()
    connection = http.client.HTTPSConnection(host, port, context=context, timeout=30)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def main(namespace: str, name: str, within_s: float) -> int:
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{name}"
    until = time.monotonic() + within_s
    status = request("DELETE", path)
    while status != http.client.NOT_FOUND:
        if not 200 <= status < 300:
            print(f"the Kubernetes API answers {status} for {path}", flush=True)
            return 1
        if time.monotonic() > until:
            print(f"{path} still exists after {within_s:g} s", flush=True)
            return 1
        time.sleep(PAUSE_S)
        status = request("GET", path)
    print(f"{path} is gone", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
