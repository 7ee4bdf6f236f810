"""Model of the values of the Helm chart in helm/weir. Its values.yaml, schema and README are generated from this model.

Names follow the charts of Ray, of stream processors and of schedulers. Kubernetes' own values (resources, tolerations, …) are passed
on unchanged. `config` has the keys of the file that `weir up` reads. Rules that involve several values are checked in the chart
(`templates/validation.yaml`), because only Helm has all values merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from configs.base import Name, Settings
from configs.classes.live_class import LiveSettings, Sql
from configs.documents.declarations import PriorityClassDeclaration, TenantDeclaration
from configs.documents.spark_streams import OptionName, OptionText
from configs.service.service_settings import PORT, ServiceSettings
from configs.service.up_settings import NODE, ClusterSettings, GatewaySettings, UpSettings

RAY_VERSION = "2.60.0"
GCS_PORT, GATEWAY_PORT = 6379, 8815
CONFIG_FOLDER, TLS_FOLDER, GATEWAY_TLS_FOLDER = "/etc/weir", "/etc/weir-tls", "/etc/weir-gateway-tls"
# Seconds that `weir up` waits while Ray's head starts in the same pod.
WAIT_S = 300.0
# Bytes of Ray's object store. By default, Ray would take 30% of the memory, which does not fit in /dev/shm.
OBJECT_STORE_BYTES = 128 << 20
# Bytes of input kept for recovery, per stream; answers, streams and Ray's objects must fit in a worker's /dev/shm.
RETAINED_BYTES = 256 << 20

Object = Mapping[str, Any]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
Count = Annotated[int, Field(ge=0, le=10_000)]
Duration = Annotated[str, Field(pattern=r"^[0-9]+(ms|s|m)$")]
DnsLabel = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]


class ChartSection(Settings):
    """Section of the chart's values; keys are in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


# Security context of all containers.
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
# Security context of all Ray pods. 1000 and 100 are the user and group of Ray's images.
POD_RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 100,
    "fsGroup": 100,
    "seccompProfile": {"type": "RuntimeDefault"},
}
USES_SPARK: Mapping[str, Any] = POD_RESTRICTED | {"runAsGroup": 1000, "fsGroup": 1000}


def needs(cpu: str, memory: str) -> Object:
    """Return resources with requests equal to the limits, so that Kubernetes reserves everything that the pod may use."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


class Amounts(Settings):
    """Amounts of CPU, memory and, if needed, other Kubernetes resources."""

    model_config = ConfigDict(extra="allow")
    cpu: Quantity
    """Number of processors, as a Kubernetes quantity."""
    memory: Quantity
    """Memory in bytes, as a Kubernetes quantity."""


class Resources(Settings):
    """Resources of a container. Requests and limits of CPU and memory are required: Weir needs guaranteed processors."""

    requests: Amounts
    limits: Amounts


class Image(ChartSection):
    """Container image."""

    registry: str = "localhost"
    """Host of the image registry. The default stands for an image that was loaded on every node, and is never pulled from anywhere.
    `global.imageRegistry` takes precedence."""
    repository: str
    """Name of the image."""
    tag: str = ""
    """Tag of the image; if empty, the chart's `appVersion` is used."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """Digest of the image (`sha256:…`), used instead of the tag."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Pull policy of the image."""
    pull_secrets: Sequence[str] = []
    """Names of Secrets with credentials for the registry."""


class ServiceAccount(ChartSection):
    """ServiceAccount that the pods run as."""

    create: bool = True
    """True creates a ServiceAccount; false uses an existing one."""
    name: str = ""
    """Name of the ServiceAccount. If empty: a name made from the release's name, or `default` if none is created."""
    annotations: Mapping[str, str] = {}
    """Annotations of the created ServiceAccount."""


class DisruptionBudget(ChartSection):
    """PodDisruptionBudget, which limits how many pods are stopped while nodes are drained."""

    enabled: bool = False
    """True creates a PodDisruptionBudget; set either `minAvailable` or `maxUnavailable`."""
    min_available: int | str | None = None
    """Minimum number or percentage of pods that keep running."""
    max_unavailable: int | str | None = None
    """Maximum number or percentage of pods that may be stopped."""


class RayDisruptionBudget(ChartSection):
    """PodDisruptionBudget, which limits how many pods are stopped while nodes are drained."""

    enabled: bool = False
    """True creates a PodDisruptionBudget; set `minAvailable`."""
    min_available: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Minimum number of pods that keep running; with as many as there are, no node can be drained. Kubernetes allows neither a percentage
    nor `maxUnavailable` for pods of KubeRay."""


class Pods(ChartSection):
    """Settings of all pods of a kind."""

    labels: Mapping[str, str] = {}
    """Additional labels of the pods."""
    annotations: Mapping[str, str] = {}
    """Additional annotations of the pods."""
    node_selector: Mapping[str, str] = {}
    """Labels that a Kubernetes node must have to run the pods."""
    tolerations: Sequence[Object] = []
    """Tolerations of the pods for node taints."""
    affinity: Mapping[str, Any] = {}
    """Affinity rules of the pods."""
    topology_spread_constraints: Sequence[Object] = []
    """Topology spread constraints of the pods; a constraint without `labelSelector` selects these pods."""
    priority_class_name: str = ""
    """Name of a Kubernetes PriorityClass for the pods; this is not one of Weir's priority classes."""
    termination_grace_period_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Seconds that the pods have to stop before they are killed."""
    extra_env: Sequence[Object] = []
    """Additional environment variables of the main container."""
    extra_env_from: Sequence[Object] = []
    """ConfigMaps and Secrets with additional environment variables of the main container."""
    extra_volumes: Sequence[Object] = []
    """Additional volumes of the pods."""
    extra_volume_mounts: Sequence[Object] = []
    """Additional volume mounts of the main container."""
    temporary_storage: Quantity = "10Gi"
    """Size limit of `/tmp`; a pod that uses more is stopped."""


class RayPods(Pods):
    """Settings of the pods of the Ray cluster."""

    resources: Resources
    """Resources of the Ray container; Ray uses as many processors as the CPU limit."""
    shared_memory: Quantity = "1Gi"
    """Size of `/dev/shm`, which holds streams, answers and Ray's objects; it counts towards the memory limit."""
    ray_start_params: Mapping[str, str] = {"object-store-memory": str(OBJECT_STORE_BYTES)}
    """Additional options of `ray start`; all values are strings. Ray's objects are in `/dev/shm`: Weir needs little room for them."""
    pod_disruption_budget: RayDisruptionBudget = RayDisruptionBudget()
    """PodDisruptionBudget, which limits how many pods are stopped while nodes are drained."""


class HeadValues(RayPods):
    """The head pod, with Ray's head, Weir's coordinator and the service."""

    resources: Resources = Resources.model_validate(needs("1", "3Gi"))
    """Resources of the Ray container in the head pod, which runs Ray's tables, agents and Weir's coordinator, but no queries."""
    shared_memory: Quantity = "512Mi"
    """Size of `/dev/shm` in the head pod; it counts towards the memory limit."""


class Workers(RayPods):
    """Settings of all worker groups; a group may override each of them."""

    resources: Resources = Resources.model_validate(needs("2", "4Gi"))
    """Resources of the Ray container; `config.live.lanes` processors of the CPU limit run queries."""
    topology_spread_constraints: Sequence[Object] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """Topology spread constraints of the workers, by default over machines; a constraint without `labelSelector` selects these pods."""


class WorkerGroup(ChartSection):
    """Group of workers. Every key of `worker` is also allowed here and overrides it."""

    replicas: Count = 1
    """Number of workers of the group."""
    min_replicas: Count | None = None
    """Minimum number of workers with an autoscaler; `replicas` if not set."""
    max_replicas: Count | None = None
    """Maximum number of workers with an autoscaler; `replicas` if not set."""
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    node_selector: Mapping[str, str] | None = None
    tolerations: Sequence[Object] | None = None
    affinity: Object | None = None
    topology_spread_constraints: Sequence[Object] | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    extra_env: Sequence[Object] | None = None
    extra_env_from: Sequence[Object] | None = None
    extra_volumes: Sequence[Object] | None = None
    extra_volume_mounts: Sequence[Object] | None = None
    temporary_storage: Quantity | None = None
    resources: Resources | None = None
    shared_memory: Quantity | None = None
    ray_start_params: Mapping[str, str] | None = None


class RayAuth(ChartSection):
    """Authentication of processes that join or call the Ray cluster."""

    enabled: bool = True
    """True requires a token to join or call the Ray cluster; needs KubeRay 1.5.1 or newer, and 1.6 with `existingSecret`."""
    existing_secret: str = ""
    """Name of a Secret with the token under the key `auth_token`; if empty, KubeRay creates a token."""


class GcsFaultTolerance(ChartSection):
    """Storage of Ray's cluster tables (GCS) in Redis, so that workers keep their windows while the head pod restarts."""

    enabled: bool = False
    """True keeps Ray's cluster tables in Redis, so that workers keep their windows while the head pod restarts."""
    redis_address: str = ""
    """Address of Redis: `redis:6379` or `rediss://…`."""
    existing_secret: str = ""
    """Name of a Secret with the Redis password."""
    existing_secret_key: str = "redis-password"
    """Key of the Redis password in this Secret."""
    existing_secret_username_key: str = ""
    """Key of the Redis user name in this Secret; if empty, Redis' default user is used."""
    uninstall_timeout_seconds: Annotated[int, Field(ge=10, le=3600)] = 400
    """Maximum number of seconds for which `helm uninstall` waits until KubeRay has deleted the Ray cluster and its tables in Redis."""
    external_storage_namespace: str = ""
    """Name of Ray's tables in Redis. Leave it empty, except for a cluster that takes over the tables of another."""


class Autoscaler(ChartSection):
    """Ray's autoscaler, which starts and stops workers. Actors count as load, so a worker with classes is never stopped."""

    enabled: bool = False
    """True lets Ray's autoscaler start workers, and stop workers that run no classes."""
    version: Literal["v1", "v2"] = "v2"
    """Version of Ray's autoscaler."""
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] = "Default"
    """Mode that determines how quickly workers are added."""
    idle_timeout_seconds: Annotated[int, Field(ge=1)] = 60
    """Seconds after which an idle worker is stopped."""
    resources: Resources = Resources.model_validate(needs("500m", "512Mi"))
    """Resources of the autoscaler's container in the head pod."""


class OperatorCheck(ChartSection):
    """The KubeRay operator, which must be in the cluster."""

    check: bool = True
    """True lets `helm install` read the operator's CRD and fail if the operator is too old. Set it to false if you may not read CRDs."""


class Ray(ChartSection):
    """The Ray cluster."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = RAY_VERSION
    """Version of Ray in the image; KubeRay needs to know it."""
    operator: OperatorCheck = OperatorCheck()
    auth: RayAuth = RayAuth()
    upgrade_strategy: Literal["", "Recreate"] = ""
    """`Recreate` lets KubeRay 1.6 or newer stop all pods of the Ray cluster at once when an upgrade changes them, and start new ones. If
    empty, pods stay until they are deleted."""
    gcs_fault_tolerance: GcsFaultTolerance = GcsFaultTolerance()
    autoscaler: Autoscaler = Autoscaler()


class Persistence(ChartSection):
    """Persistent volume."""

    enabled: bool = False
    """True keeps the data in a PersistentVolumeClaim; false deletes it together with the pod."""
    size: Quantity = "1Gi"
    """Size of the volume."""
    storage_class: str = ""
    """Storage class of the volume; if empty, the cluster's default."""
    existing_claim: str = ""
    """Name of an existing PersistentVolumeClaim to use instead of a new one."""


class CatalogValues(ChartSection):
    """Database with the declared tenants, queries and keys (the catalog)."""

    dsn: str = ""
    """Address of a PostgreSQL database, `postgresql://USER:PASSWORD@HOST/DATABASE`, which is stored in a Secret. If empty: SQLite
    in the head pod."""
    existing_secret: str = ""
    """Name of an existing Secret with the database's address, used instead of `dsn`."""
    existing_secret_key: str = "dsn"
    """Key of the database's address in the Secret."""
    persistence: Persistence = Persistence()
    """Volume for SQLite; not needed with PostgreSQL."""


class KeysValues(ChartSection):
    """API keys of the administrator, of the ingest pod and of Prometheus, and the pepper that all API keys are hashed with."""

    existing_secret: str = ""
    """Name of a Secret with `pepper`, `admin-key`, `feeds-key` and `metrics-key`. If empty, the chart creates one, and keeps it when
    the release is upgraded or uninstalled."""


class ApiService(ChartSection):
    """Kubernetes Service for the REST API and the console."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the Kubernetes Service."""
    port: Port = PORT
    """Port of the Kubernetes Service; the pod itself listens on `config.service.port`."""
    annotations: Mapping[str, str] = {}
    """Annotations of the Kubernetes Service."""


class Tls(ChartSection):
    """TLS for the REST API and the console, terminated in the pod."""

    enabled: bool = False
    """True serves the REST API and the console with TLS, terminated in the pod."""
    existing_secret: str = ""
    """Name of a Secret with `tls.crt`, `tls.key` and `ca.crt`; the certificate must be valid for the Service's DNS name."""


class Ingress(ChartSection):
    """Ingress for the REST API and the console, for access from outside the cluster."""

    enabled: bool = False
    """True creates an Ingress for the REST API and the console."""
    class_name: str = ""
    """Name of the IngressClass."""
    annotations: Mapping[str, str] = {}
    """Annotations of the Ingress."""
    hosts: Sequence[str] = []
    """Host names of the Ingress."""
    tls_secret: str = ""
    """Name of a Secret with the TLS certificate for these host names."""


class HttpRoute(ChartSection):
    """HTTPRoute of the Gateway API for the REST API and the console, as an alternative to the Ingress."""

    enabled: bool = False
    """True creates an HTTPRoute for the REST API and the console."""
    parent_refs: Sequence[Object] = []
    """Gateways that the HTTPRoute attaches to; the Gateways have the TLS certificates."""
    hostnames: Sequence[str] = []
    """Host names of the HTTPRoute."""
    annotations: Mapping[str, str] = {}
    """Annotations of the HTTPRoute."""


class Api(ChartSection):
    """Container of the service in the head pod: REST API, console and metrics."""

    resources: Resources = Resources.model_validate(needs("1", "1Gi"))
    """Resources of the service's container."""
    extra_env: Sequence[Object] = []
    """Additional environment variables of the service's container."""
    extra_env_from: Sequence[Object] = []
    """ConfigMaps and Secrets with additional environment variables of the service's container."""
    extra_volume_mounts: Sequence[Object] = []
    """Mounts of `head.extraVolumes` in the service's container."""
    service: ApiService = ApiService()
    tls: Tls = Tls()
    ingress: Ingress = Ingress()
    http_route: HttpRoute = HttpRoute()


class GatewayTlsValues(ChartSection):
    """TLS of the gateways."""

    enabled: bool = False
    """True lets gateways accept only connections with TLS. Otherwise keys and rows cross the network in clear."""
    existing_secret: str = ""
    """Name of a Secret with `tls.crt`, `tls.key` and `ca.crt`."""
    server_name: str = ""
    """Name for which the certificate is valid, for example `east-weir-gateway.streams.svc`. Clients verify this name instead of the address,
    because gateways are known by the addresses of pods."""


class GatewayValues(ChartSection):
    """Gateways of the workers, to which producers and readers connect with Arrow Flight."""

    tls: GatewayTlsValues = GatewayTlsValues()


class Executors(ChartSection):
    """Spark executors in their own pods; if disabled, Spark's driver does all work."""

    enabled: bool = False
    """True runs Spark executors in their own pods; the chart then declares the Spark session (`kind: Session`)."""
    instances: Annotated[int, Field(ge=1, le=1000)] = 2
    """Number of executors."""
    cores: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of tasks that an executor runs at the same time."""
    memory: Annotated[str, Field(pattern=r"^[0-9]+[mg]$")] = "1g"
    """Heap size of an executor in Spark's format, for example `1g`."""
    memory_overhead_factor: Annotated[float, Field(ge=0.0, le=10.0)] = 0.4
    """Memory of an executor for Python and for other uses outside the heap, as a part of `memory`."""
    conf: Mapping[OptionName, OptionText] = {}
    """Additional configuration of the Spark session."""


class Rbac(ChartSection):
    """Kubernetes permissions of Spark's driver, which starts executor pods in the release's namespace."""

    create: bool = True
    """True creates a Role and a RoleBinding for Spark's driver if executors are enabled."""


class IngestValues(Pods):
    """Pod with Spark, which reads the sources of streams and feeds."""

    enabled: bool = True
    """True runs the pod with Spark; without it, rows can be sent only with Arrow Flight and REST."""
    image: Image = Image(repository="weir-ingest")
    resources: Resources = Resources.model_validate(needs("2", "3Gi"))
    """Resources of the container with Spark's driver."""
    pod_security_context: Mapping[str, Any] = USES_SPARK
    """Pod security context of the Spark pods; 1000 is the user of the image."""
    pod_disruption_budget: DisruptionBudget = DisruptionBudget()
    """PodDisruptionBudget, which limits how many pods are stopped while nodes are drained."""
    service_account: ServiceAccount = ServiceAccount()
    rbac: Rbac = Rbac()
    checkpoints: Persistence = Persistence(size="10Gi")
    """Volume with the positions up to which sources were read. Without it, a new pod reads each source from the position that its options name."""
    executors: Executors = Executors()


class PodMonitor(ChartSection):
    """PodMonitors of the Prometheus operator, which scrape the service and Ray."""

    enabled: bool = False
    """True creates PodMonitors, which require the Prometheus operator."""
    additional_labels: Mapping[str, str] = {}
    """Labels by which Prometheus selects the PodMonitors, for example `release: kube-prometheus-stack`."""
    interval: Duration = "15s"
    """Time between two scrapes."""
    scrape_timeout: Duration = "10s"
    """Timeout of a scrape."""
    ray: bool = True
    """True also scrapes Ray's own metrics."""


class Severities(ChartSection):
    """Values of the label `severity`, by which Alertmanager routes alerts."""

    page: str = "critical"
    """Severity of alerts that need attention now, because a promise is being broken."""
    ticket: str = "warning"
    """Severity of alerts that can wait for working hours."""


class PrometheusRule(ChartSection):
    """PrometheusRule with Weir's recording rules and alerts."""

    enabled: bool = False
    """True creates a PrometheusRule with Weir's recording rules and alerts, which requires the Prometheus operator."""
    additional_labels: Mapping[str, str] = {}
    """Labels by which Prometheus selects the PrometheusRule."""
    additional_rule_labels: Mapping[str, str] = {}
    """Labels added to every alert, for example the team that is notified."""
    severities: Severities = Severities()
    runbook_url: str = ""
    """Address at which you publish `docs/runbook.md`; each alert links to its section there. If empty, alerts have no link."""
    selector: Mapping[str, str] = {}
    """Labels by which the rules select the series of this release. If empty: `namespace` and `release`, as the PodMonitors add them."""
    disabled: Sequence[str] = []
    """Names of alerts to omit."""


class Dashboards(ChartSection):
    """Grafana dashboards in ConfigMaps, which Grafana's sidecar loads."""

    enabled: bool = False
    """True creates a ConfigMap for each Grafana dashboard. The dashboards show all releases, so one release needs to have them."""
    per_release: bool = False
    """True gives the dashboards addresses, titles and file names of their own, for several releases that have them in one Grafana."""
    label: str = "grafana_dashboard"
    """Name of the label by which Grafana's sidecar selects the ConfigMaps."""
    label_value: str = "1"
    """Value of this label."""
    annotations: Mapping[str, str] = {}
    """Annotations of the ConfigMaps, for example to choose the folder in Grafana."""
    additional_labels: Mapping[str, str] = {}
    """Additional labels of the ConfigMaps."""


class Monitoring(ChartSection):
    """Objects for Prometheus and Grafana."""

    pod_monitor: PodMonitor = PodMonitor()
    prometheus_rule: PrometheusRule = PrometheusRule()
    dashboards: Dashboards = Dashboards()


class Dns(ChartSection):
    """DNS server of the cluster, which all pods may call."""

    namespace_selector: Mapping[str, Any] = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    """Selector of the DNS server's namespace."""
    pod_selector: Mapping[str, Any] = {"matchLabels": {"k8s-app": "kube-dns"}}
    """Selector of the DNS server's pods."""
    port: Port = 53
    """Port of the DNS server, for UDP and TCP: 5353 on OpenShift."""
    peers: Sequence[Object] = []
    """Additional DNS servers (peers in NetworkPolicy format), for example `ipBlock: {cidr: 169.254.20.10/32}` for a cache on each node."""


class ExtraRules(ChartSection):
    """Additional rules of a Kubernetes NetworkPolicy, by kind of pod."""

    head: Sequence[Object] = []
    """Additional rules for the head pod, which calls the catalog's database, Redis and the stores of mirrors."""
    worker: Sequence[Object] = []
    """Additional rules for worker pods."""
    ingest: Sequence[Object] = []
    """Additional rules for Spark pods, which call the sources of streams."""


class NetworkPolicy(ChartSection):
    """NetworkPolicies of the release's pods."""

    enabled: bool = False
    """True allows only the connections listed here, connections between pods of the release, and DNS."""
    dns: Dns = Dns()
    api_from: Sequence[Object] = [{}]
    """Peers (in NetworkPolicy format) that may call the REST API and the console; `{}` means all pods of the namespace."""
    gateway_from: Sequence[Object] = []
    """Peers that may send rows to workers and read answers from them with Arrow Flight."""
    metrics_from: Sequence[Object] = []
    """Peers that may scrape metrics."""
    extra_ingress: ExtraRules = ExtraRules()
    extra_egress: ExtraRules = ExtraRules()


class PriorityClassValues(PriorityClassDeclaration):
    """Document of kind PriorityClass."""

    kind: Literal["PriorityClass"] = "PriorityClass"


class TenantValues(TenantDeclaration):
    """Document of kind Tenant."""

    kind: Literal["Tenant"] = "Tenant"


class MirrorValues(Settings):
    """Document of kind Mirror without `options`: it is stored in a ConfigMap, so it must not contain secrets."""

    kind: Literal["Mirror"] = "Mirror"
    name: Name
    sql: Sql
    """Statement that declares the mirror: CREATE MIRROR …"""


class Apply(ChartSection):
    """Job that declares `priorityClasses`, `tenants` and `mirrors` after each install and upgrade."""

    resources: Resources = Resources.model_validate(needs("200m", "256Mi"))
    """Resources of the Job's container."""
    timeout_seconds: Annotated[int, Field(ge=10, le=86_400)] = 1200
    """Maximum number of seconds for which the Job waits for the service. Helm waits for the Job: give `helm install` a longer `--timeout`."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 2
    """Maximum number of times that the Job's pod is started again; pods that failed are kept with their logs."""
    node_selector: Mapping[str, str] = {}
    """Labels that a Kubernetes node must have to run the Job."""
    tolerations: Sequence[Object] = []
    """Tolerations of the Job for node taints."""


class Tests(ChartSection):
    """Pod of `helm test`, which declares a tenant and a query, sends a row, waits for the answer and deletes everything again."""

    enabled: bool = True
    """True creates the pod of `helm test`."""
    resources: Resources = Resources.model_validate(needs("200m", "256Mi"))
    """Resources of the test's container."""
    timeout_seconds: Annotated[int, Field(ge=10, le=3600)] = 180
    """Maximum number of seconds until the test's query answers."""


CONFIG = UpSettings(
    live=LiveSettings(lanes=1, retained_bytes=RETAINED_BYTES),
    gateway=GatewaySettings(host=NODE, port=GATEWAY_PORT),
    service=ServiceSettings(host="0.0.0.0", port=PORT),
    cluster=ClusterSettings(address=f"127.0.0.1:{GCS_PORT}", wait_s=WAIT_S),
)


class ChartValues(ChartSection):
    """All values of the chart."""

    name_override: str = ""
    """Text used instead of the chart's name in names of objects."""
    fullname_override: str = ""
    """Text used instead of release name and chart name in names of objects; at most 40 characters."""
    common_labels: Mapping[str, str] = {}
    """Labels added to every object."""
    common_annotations: Mapping[str, str] = {}
    """Annotations added to every object."""
    image: Image = Image(repository="weir")
    config: UpSettings = CONFIG
    """Settings of `weir up`, with the keys of its configuration file."""
    catalog: CatalogValues = CatalogValues()
    keys: KeysValues = KeysValues()
    ray: Ray = Ray()
    service_account: ServiceAccount = ServiceAccount()
    pod_security_context: Mapping[str, Any] = POD_RESTRICTED
    """Pod security context of the head pod, the workers, the Job and the test."""
    security_context: Mapping[str, Any] = RESTRICTED
    """Security context of every container."""
    head: HeadValues = HeadValues()
    worker: Workers = Workers()
    worker_groups: Mapping[DnsLabel, WorkerGroup] = {"default": WorkerGroup()}
    """Groups of workers by name; set a group to null to remove it. Every key of `worker` is also allowed in a group and overrides it."""
    api: Api = Api()
    gateway: GatewayValues = GatewayValues()
    ingest: IngestValues = IngestValues()
    monitoring: Monitoring = Monitoring()
    network_policy: NetworkPolicy = NetworkPolicy()
    priority_classes: Sequence[PriorityClassValues] = []
    """Documents of kind PriorityClass, which the chart's Job declares. Removing a document from the list does not delete the priority class."""
    tenants: Sequence[TenantValues] = []
    """Documents of kind Tenant, which the chart's Job declares. Removing a document from the list does not delete the tenant."""
    mirrors: Annotated[Sequence[MirrorValues], Field(max_length=100)] = []
    """Documents of kind Mirror, which the chart's Job declares. Removing a document from the list does not delete the mirror. Pass the
    password of a database as `PGPASSWORD` in a Secret that `api.extraEnvFrom` names."""
    apply: Apply = Apply()
    tests: Tests = Tests()
    extra_objects: Sequence[Object] = []
    """Additional Kubernetes objects; they are rendered as templates."""

    def up_settings(self) -> UpSettings:
        """Return the settings that `weir up` gets in the pod: `config`, with the files of the certificates if TLS is on."""
        settings = self.config.model_dump()
        if self.api.tls.enabled:
            files = {"tls_certificate": f"{TLS_FOLDER}/tls.crt", "tls_key": f"{TLS_FOLDER}/tls.key"}
            settings["service"].update(files)
        if self.gateway.tls.enabled:
            names = {"certificate": "tls.crt", "key": "tls.key", "ca_file": "ca.crt"}
            tls = {name: f"{GATEWAY_TLS_FOLDER}/{file}" for name, file in names.items()}
            settings["gateway"]["tls"] = {**tls, "server_name": self.gateway.tls.server_name}
        return UpSettings.model_validate(settings)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` merged with `over` as Helm does: mappings key by key, lists as a whole; null removes a key."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result
