"""Program of `helm test`: create a tenant with a query, send a row, read the answer, and delete everything again.

The argument is the number of seconds that this may take. Endpoint and key come from the environment, as for every command of Weir.
"""

import sys
import time
import uuid

from configs.documents.declarations import QueryDeclaration, StreamDeclaration, TenantDeclaration
from configs.errors import WeirError
from services.client import Client

PAUSE_S = 0.5


def answered(weir: Client, name: str) -> bool:
    """Send a row, and return True if the query has answered a row. The query starts shortly after its declaration."""
    try:
        weir.put_rows(name, [{"ts": "2026-01-01T00:00:00Z", "value": 17}])
        return any(row["value"] == 17 for row in weir.results(f"{name}/odd", patience_s=0.0))
    except WeirError as problem:
        print(f"not yet: {problem}", flush=True)
        return False


def main(within_s: float) -> int:
    name, until = f"helm_test_{uuid.uuid4().hex[:8]}", time.monotonic() + within_s
    columns = {"ts": "timestamp", "value": "int64"}
    sql = f"SELECT value FROM {name} WHERE value % 2 = 1"
    documents = [
        StreamDeclaration(kind="Stream", name=name, columns=columns, time="ts"),
        TenantDeclaration(kind="Tenant", name=name, priority_class="bronze"),
        QueryDeclaration(kind="Query", tenant=name, name="odd", sql=sql),
    ]
    with Client() as weir:
        weir.apply(documents)
        print(f"declared tenant {name}", flush=True)
        try:
            while not answered(weir, name):
                if time.monotonic() > until:
                    print(f"no answer within {within_s:g} s", flush=True)
                    return 1
                time.sleep(PAUSE_S)
            print("read a result", flush=True)
        finally:
            for kind, what in (("Query", f"{name}/odd"), ("Tenant", name), ("Stream", name)):
                weir.delete(kind, what)
    print("the tenant is gone", flush=True)
    return 0


sys.exit(main(float(sys.argv[1])))
