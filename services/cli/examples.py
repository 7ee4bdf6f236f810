"""Examples of every command, shown in its help. A test parses each example with the real parser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": (
        "weir up",
        "weir apply -f documents.yaml",
        'weir query add acme/odd "SELECT * FROM ticks WHERE value % 2 = 1"',
        "weir results acme/odd --follow",
        "weir help query add",
    ),
    "up": (
        "weir up",
        "weir up -f documents.yaml     # apply these documents first",
        "weir up --lanes 4 --api-port 8643",
        "weir up -o json --quiet",
    ),
    "down": ("weir down --address 10.0.0.5:6379",),
    "demo": (
        "weir demo --seconds 30",
        "weir demo --scenario overload --load 2 --result out/result.json",
    ),
    "top": (
        "weir top",
        "weir top --once -o wide       # every column, once",
        "weir top --quality --interval 5",
        "weir top -o json",
    ),
    "ingest": (
        "weir ingest -f streams.yaml",
        "weir ingest -f streams.yaml --check   # start nothing",
        "weir ingest --from-service --quiet",
    ),
    "mirror": ("weir mirror mirrors.sql", "weir mirror mirrors.sql --check"),
    "plan": (
        "weir plan -f tenant.yaml",
        "weir plan -f tenant.yaml --rate ticks=5000",
    ),
    "apply": (
        "weir apply -f documents.yaml",
        "weir apply -f tenants/ -R     # all YAML and JSON files below a folder",
        "cat documents.yaml | weir apply -f -",
        "weir apply streams.yaml tenants.yaml",
    ),
    "diff": ("weir diff -f documents.yaml", "weir diff -f tenants/ -o json"),
    "get": (
        "weir get tenants",
        "weir get query acme/odd -o yaml",
        "weir get queries -o wide      # whole SQL",
    ),
    "describe": ("weir describe tenant acme", "weir describe stream ticks -o json"),
    "delete": (
        "weir delete query acme/odd acme/even",
        "weir delete -f documents.yaml",
        "weir delete query --all --yes",
    ),
    "query": ("weir query ls", 'weir query add acme/odd "SELECT * FROM ticks WHERE value % 2 = 1"'),
    "query add": (
        'weir query add acme/odd "SELECT * FROM ticks WHERE value % 2 = 1"',
        "weir query add acme/odd -f odd.sql",
        'weir query add odd "SELECT * FROM ticks"    # with the tenant\'s own key',
        'weir query add acme/odd "SELECT * FROM ticks" --utility 200:1,400:0.5,900:0',
    ),
    "query rm": ("weir query rm acme/odd acme/even", "weir query rm --all --tenant acme --yes"),
    "query ls": ("weir query ls", "weir query ls acme -o wide"),
    "query quality": ("weir query quality acme", "weir query quality acme -o json"),
    "keys": ("weir keys ls", "weir keys create acme --scope tenant:acme"),
    "keys create": (
        "weir keys create acme --scope tenant:acme --expires 90d",
        "weir keys create feeder --scope ingest:ticks",
    ),
    "keys ls": ("weir keys ls", "weir keys ls -o json"),
    "keys revoke": ("weir keys revoke 3f2a91c04b7d",),
    "results": (
        "weir results acme/odd",
        "weir results acme/odd --follow --after latest",
        "weir results acme/odd -o csv",
    ),
    "ask": (
        'weir ask "SELECT AVG(temp) FROM readings [RANGE 10 MINUTES]"    # with the tenant\'s own key',
        'weir ask "SELECT sensor, MAX(temp) FROM readings [RANGE 1 HOUR] GROUP BY sensor" --tenant acme -o json',
    ),
    "explain": ("weir explain acme", "weir explain acme --last 50 -o json"),
    "ledger": ("weir ledger", "weir ledger acme -o json"),
    "rows": ("weir rows put ticks readings.jsonl",),
    "rows put": (
        "weir rows put ticks readings.csv",
        "weir rows put ticks readings.jsonl --batch monday",
        "cat readings.jsonl | weir rows put ticks -",
    ),
    "dashboards": ("weir dashboards push --grafana https://grafana.example",),
    "dashboards push": (
        "weir dashboards push --grafana https://grafana.example --token-file token",
        "weir dashboards push --grafana https://grafana.example --dry-run",
    ),
    "dashboards annotate": ("weir dashboards annotate --grafana https://grafana.example",),
    "run": (
        "weir run queries.sql -i ticks=ticks.parquet",
        "weir run queries.sql -i ticks=ticks.csv -o json",
        "weir run queries.sql -i ticks=ticks.csv --out answers --explain",
    ),
    "sim": (
        "weir sim overload-2x",
        "weir sim dilos-steps --explain class2 --report out",
        "weir sim sharaf-qos --policies",
        "weir sim golab-low --schedules -o json",
    ),
    "bench": ("weir bench w11 --data w11", "weir bench w11 --data w11 -o json"),
    "config": ("weir config", "weir config render -c up.yaml"),
    "config show": ("weir config show -o json",),
    "config render": ("weir config render -c up.yaml", "weir config render -f values.yaml"),
    "help": ("weir help", "weir help query add"),
    "version": ("weir version",),
}
