"""The values of the chart in helm/weir: one model, from which its values.yaml, its schema and its README are written.

Names are those that charts of Ray, of stream processors and of schedulers use. What is Kubernetes' own (resources, tolerations,
…) is passed on as it is. `config` is the file that `weir up` reads, with the same keys. What one value says about another is
checked in the chart (`templates/validation.yaml`), which alone sees all of them merged.
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
CONFIG_FOLDER, TLS_FOLDER = "/etc/weir", "/etc/weir-tls"
# While Ray's head starts beside it.
WAIT_S = 300.0

Object = Mapping[str, Any]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
Count = Annotated[int, Field(ge=0, le=10_000)]
Duration = Annotated[str, Field(pattern=r"^[0-9]+(ms|s|m)$")]
DnsLabel = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]


class ChartSection(Settings):
    """Keys are written in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


# What runs in a pod asks for these; the memory of a worker holds streams, windows and answers.
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
# 1000 and 100 are user and group of Ray's images.
POD_RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 100,
    "fsGroup": 100,
    "seccompProfile": {"type": "RuntimeDefault"},
}
USES_SPARK: Mapping[str, Any] = POD_RESTRICTED | {"runAsGroup": 1000, "fsGroup": 1000}


def needs(cpu: str, memory: str) -> Object:
    """Requests that are the limits: nobody is promised what he does not have."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


class Amounts(Settings):
    """Of Kubernetes' quantities; others than these two may be added."""

    model_config = ConfigDict(extra="allow")
    cpu: Quantity
    """Processors."""
    memory: Quantity
    """Bytes."""


class Resources(Settings):
    """Of a container. All four are needed: turns are promised of processors that are there."""

    requests: Amounts
    limits: Amounts


class Image(ChartSection):
    """Where an image comes from."""

    registry: str = ""
    """Host of the registry; without it the cluster's own rules count."""
    repository: str
    """Name of the image."""
    tag: str = ""
    """The chart's `appVersion` without it."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """`sha256:…`; goes before the tag."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When it is fetched."""
    pull_secrets: Sequence[str] = []
    """Names of Secrets for the registry."""


class ServiceAccount(ChartSection):
    """As whom pods run."""

    create: bool = True
    """Make one."""
    name: str = ""
    """Its name; the release's if it is made and this is empty."""
    annotations: Mapping[str, str] = {}
    """Of the one that is made."""


class DisruptionBudget(ChartSection):
    """How many pods may be away while nodes are drained; one of the two."""

    enabled: bool = False
    """Make one."""
    min_available: int | str | None = None
    """Pods that stay, or a percentage."""
    max_unavailable: int | str | None = None
    """Pods that may be away, or a percentage."""


class Pods(ChartSection):
    """What can be said of all pods of a kind."""

    labels: Mapping[str, str] = {}
    """Further labels."""
    annotations: Mapping[str, str] = {}
    """Annotations."""
    node_selector: Mapping[str, str] = {}
    """Labels of nodes they may run on."""
    tolerations: Sequence[Object] = []
    """Taints they bear."""
    affinity: Mapping[str, Any] = {}
    """Where they would rather run."""
    topology_spread_constraints: Sequence[Object] = []
    """How they are spread; a constraint without `labelSelector` is about these pods."""
    priority_class_name: str = ""
    """Of Kubernetes' PriorityClass, which is not Weir's."""
    termination_grace_period_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """How long they have to end."""
    extra_env: Sequence[Object] = []
    """Further environment of the main container."""
    extra_env_from: Sequence[Object] = []
    """The same from ConfigMaps and Secrets."""
    extra_volumes: Sequence[Object] = []
    """Further volumes."""
    extra_volume_mounts: Sequence[Object] = []
    """Where the main container has them."""
    pod_disruption_budget: DisruptionBudget = DisruptionBudget()
    """While nodes are drained."""


class RayPods(Pods):
    """Of pods that are Ray's."""

    resources: Resources
    """Of the Ray container; Ray takes its processors from the limit."""
    shared_memory: Quantity = "1Gi"
    """Room for streams, answers and Ray's objects (`/dev/shm`); counts against the memory limit."""
    ray_start_params: Mapping[str, str] = {}
    """Further options of `ray start`, all of them text."""


class HeadValues(RayPods):
    """The pod with Ray's head, the coordinator, and the service beside them."""

    resources: Resources = Resources.model_validate(needs("1", "2Gi"))
    """Of the Ray container, which has no queries."""
    shared_memory: Quantity = "512Mi"
    """The same as for workers."""


class Workers(RayPods):
    """What all worker groups have, unless a group says otherwise."""

    resources: Resources = Resources.model_validate(needs("2", "4Gi"))
    """Of the Ray container; Ray takes its processors from the limit, of which `config.live.lanes` are for queries."""
    topology_spread_constraints: Sequence[Object] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """How they are spread: over machines, where there are several; a constraint without `labelSelector` is about these pods."""


class WorkerGroup(ChartSection):
    """A kind of worker; every key of `worker` may be given here too, and goes before it."""

    replicas: Count = 1
    """Workers of the group."""
    min_replicas: Count | None = None
    """Least, with an autoscaler; `replicas` without it."""
    max_replicas: Count | None = None
    """Most, with an autoscaler; `replicas` without it."""
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
    resources: Resources | None = None
    shared_memory: Quantity | None = None
    ray_start_params: Mapping[str, str] | None = None


class RayAuth(ChartSection):
    """Who may join the Ray cluster and call it."""

    enabled: bool = True
    """By a token; KubeRay 1.6 or newer."""
    existing_secret: str = ""
    """Secret with the token as `auth_token`; KubeRay makes one without it."""


class GcsFaultTolerance(ChartSection):
    """Ray's tables in a Redis: when the head pod goes, workers keep their windows until it is back."""

    enabled: bool = False
    """Keep them there."""
    redis_address: str = ""
    """`redis:6379` or `rediss://…`."""
    existing_secret: str = ""
    """Secret with the Redis password."""
    existing_secret_key: str = "redis-password"
    """Its key."""
    external_storage_namespace: str = ""
    """Names these tables in the Redis; leave it empty unless a cluster is to take over those of another."""


class Autoscaler(ChartSection):
    """Ray's own, which starts and ends workers. Actors count as load: a worker with classes is not ended."""

    enabled: bool = False
    """Let it."""
    version: Literal["v1", "v2"] = "v2"
    """Which one."""
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] = "Default"
    """How quickly workers are added."""
    idle_timeout_seconds: Annotated[int, Field(ge=1)] = 60
    """An idle worker ends after so long."""
    resources: Resources = Resources.model_validate(needs("500m", "512Mi"))
    """Of its container in the head pod."""


class Ray(ChartSection):
    """The Ray cluster."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = RAY_VERSION
    """Of the image; KubeRay goes by it."""
    auth: RayAuth = RayAuth()
    gcs_fault_tolerance: GcsFaultTolerance = GcsFaultTolerance()
    autoscaler: Autoscaler = Autoscaler()


class Persistence(ChartSection):
    """A volume."""

    enabled: bool = False
    """Keep it when the pod goes."""
    size: Quantity = "1Gi"
    """How large."""
    storage_class: str = ""
    """The cluster's default without it."""
    existing_claim: str = ""
    """Use this claim instead."""


class CatalogValues(ChartSection):
    """Where tenants, queries and keys are kept."""

    dsn: str = ""
    """`postgresql://USER:PASSWORD@HOST/DATABASE`, kept in a Secret; SQLite in the pod's volume without it."""
    existing_secret: str = ""
    """Secret with the DSN instead."""
    existing_secret_key: str = "dsn"
    """Its key."""
    persistence: Persistence = Persistence()
    """Of the volume with SQLite; not needed with PostgreSQL."""


class KeysValues(ChartSection):
    """The pepper of all keys, and the keys of pods and of Prometheus."""

    existing_secret: str = ""
    """Secret with `pepper`, `admin-key`, `feeds-key`, `metrics-key`. Without it one is made, and kept by upgrades and uninstall."""


class ApiService(ChartSection):
    """The Service in front of REST and the console."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Its type."""
    port: Port = PORT
    """Its port; the pod listens at `config.service.port`."""
    annotations: Mapping[str, str] = {}
    """Annotations."""


class Tls(ChartSection):
    """REST and the console by TLS, in the pod itself."""

    enabled: bool = False
    """Serve by TLS."""
    existing_secret: str = ""
    """Secret with `tls.crt`, `tls.key` and `ca.crt`; the certificate names the Service."""


class Ingress(ChartSection):
    """A way in from outside the cluster."""

    enabled: bool = False
    """Make one."""
    class_name: str = ""
    """Which controller."""
    annotations: Mapping[str, str] = {}
    """Annotations."""
    hosts: Sequence[str] = []
    """Names under which it is reached."""
    tls_secret: str = ""
    """Secret with the certificate of these names."""


class HttpRoute(ChartSection):
    """The same by the Gateway API."""

    enabled: bool = False
    """Make one."""
    parent_refs: Sequence[Object] = []
    """Gateways, which have the certificates."""
    hostnames: Sequence[str] = []
    """Names under which it is reached."""
    annotations: Mapping[str, str] = {}
    """Annotations."""


class Api(ChartSection):
    """The service, beside Ray's head: REST, the console, what Prometheus is told."""

    resources: Resources = Resources.model_validate(needs("1", "1Gi"))
    """Of its container."""
    extra_env: Sequence[Object] = []
    """Further environment."""
    extra_env_from: Sequence[Object] = []
    """The same from ConfigMaps and Secrets."""
    extra_volume_mounts: Sequence[Object] = []
    """Where it has `head.extraVolumes`."""
    service: ApiService = ApiService()
    tls: Tls = Tls()
    ingress: Ingress = Ingress()
    http_route: HttpRoute = HttpRoute()


class Executors(ChartSection):
    """Spark's executors in pods of their own; the driver alone without them."""

    enabled: bool = False
    """Have them; the chart then declares the session (`kind: Session`)."""
    instances: Annotated[int, Field(ge=1, le=1000)] = 2
    """How many."""
    cores: Annotated[int, Field(ge=1, le=256)] = 1
    """Tasks that one runs at a time."""
    memory: Annotated[str, Field(pattern=r"^[0-9]+[mg]$")] = "1g"
    """Heap of one, as Spark writes it."""
    conf: Mapping[OptionName, OptionText] = {}
    """Further settings of the session."""


class Rbac(ChartSection):
    """What Spark's driver may do in its namespace: have executors."""

    create: bool = True
    """Make Role and RoleBinding, where there are executors."""


class IngestValues(Pods):
    """The pod whose Spark brings the streams that have a source."""

    enabled: bool = True
    """Have it; without it rows come by Arrow Flight and REST alone."""
    image: Image = Image(repository="weir-ingest")
    resources: Resources = Resources.model_validate(needs("2", "3Gi"))
    """Of the driver."""
    pod_security_context: Mapping[str, Any] = USES_SPARK
    """Of its pods; 1000 is the user of the image."""
    service_account: ServiceAccount = ServiceAccount()
    rbac: Rbac = Rbac()
    checkpoints: Persistence = Persistence(size="10Gi")
    """How far sources have been read. Without it a new pod reads them from their beginning, or from where they say."""
    executors: Executors = Executors()


class PodMonitor(ChartSection):
    """What Prometheus' operator scrapes."""

    enabled: bool = False
    """Make them."""
    additional_labels: Mapping[str, str] = {}
    """By which the Prometheus finds them, as `release: kube-prometheus-stack`."""
    interval: Duration = "15s"
    """How often."""
    scrape_timeout: Duration = "10s"
    """For so long."""
    ray: bool = True
    """Ray's own metrics, too."""


class PrometheusRule(ChartSection):
    """Recording rules and alerts."""

    enabled: bool = False
    """Make it."""
    additional_labels: Mapping[str, str] = {}
    """By which the Prometheus finds it."""
    disabled: Sequence[str] = []
    """Names of alerts that are left out."""


class Dashboards(ChartSection):
    """Grafana's dashboards, a ConfigMap each, for its sidecar."""

    enabled: bool = False
    """Make them."""
    label: str = "grafana_dashboard"
    """By which the sidecar finds them."""
    label_value: str = "1"
    """The label's value."""
    annotations: Mapping[str, str] = {}
    """As for the folder."""
    additional_labels: Mapping[str, str] = {}
    """Further labels."""


class Monitoring(ChartSection):
    """For Prometheus and Grafana."""

    pod_monitor: PodMonitor = PodMonitor()
    prometheus_rule: PrometheusRule = PrometheusRule()
    dashboards: Dashboards = Dashboards()


class Dns(ChartSection):
    """Where names are asked for."""

    namespace_selector: Mapping[str, Any] = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    """Its namespace."""
    pod_selector: Mapping[str, Any] = {"matchLabels": {"k8s-app": "kube-dns"}}
    """Its pods."""
    port: Port = 53
    """UDP and TCP."""


class ExtraRules(ChartSection):
    """Rules of Kubernetes' NetworkPolicy, added to those of a kind of pod."""

    head: Sequence[Object] = []
    """For the head pod: the catalog's database, Redis."""
    worker: Sequence[Object] = []
    """For workers."""
    ingest: Sequence[Object] = []
    """For Spark: its sources."""


class NetworkPolicy(ChartSection):
    """Who may talk with whom."""

    enabled: bool = False
    """Refuse what is not named here; pods of the release may talk with each other, and ask for names."""
    dns: Dns = Dns()
    api_from: Sequence[Object] = [{}]
    """Peers that may call REST and the console; an empty one is everybody in the namespace's pods."""
    gateway_from: Sequence[Object] = []
    """Peers that may bring rows and read answers at workers."""
    metrics_from: Sequence[Object] = []
    """Peers that may scrape."""
    extra_ingress: ExtraRules = ExtraRules()
    extra_egress: ExtraRules = ExtraRules()


class PriorityClassValues(PriorityClassDeclaration):
    """A document of kind PriorityClass."""

    kind: Literal["PriorityClass"] = "PriorityClass"


class TenantValues(TenantDeclaration):
    """A document of kind Tenant."""

    kind: Literal["Tenant"] = "Tenant"


class MirrorValues(Settings):
    """A document of kind Mirror without `options`: what values say is in a ConfigMap, and is not to be secret."""

    kind: Literal["Mirror"] = "Mirror"
    name: Name
    sql: Sql
    """CREATE MIRROR …"""


class Apply(ChartSection):
    """The Job that declares `priorityClasses`, `tenants` and `mirrors` after install and upgrade."""

    resources: Resources = Resources.model_validate(needs("200m", "256Mi"))
    """Of its container."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 10
    """How often it tries again; the service may take some minutes to begin."""
    node_selector: Mapping[str, str] = {}
    """Labels of nodes it may run on."""
    tolerations: Sequence[Object] = []
    """Taints it bears."""


class Tests(ChartSection):
    """The pod of `helm test`: a tenant comes, asks, reads a result, and goes."""

    enabled: bool = True
    """Have it."""
    resources: Resources = Resources.model_validate(needs("200m", "256Mi"))
    """Of its container."""
    timeout_seconds: Annotated[int, Field(ge=10, le=3600)] = 180
    """How long a result may take."""


CONFIG = UpSettings(
    live=LiveSettings(lanes=1),
    gateway=GatewaySettings(host=NODE, port=GATEWAY_PORT),
    service=ServiceSettings(host="0.0.0.0", port=PORT),
    cluster=ClusterSettings(address=f"127.0.0.1:{GCS_PORT}", wait_s=WAIT_S),
)


class ChartValues(ChartSection):
    """All of them."""

    name_override: str = ""
    """Instead of the chart's name, in names."""
    fullname_override: str = ""
    """Instead of release and chart, in names; 40 characters at most."""
    common_labels: Mapping[str, str] = {}
    """Of everything."""
    common_annotations: Mapping[str, str] = {}
    """Of everything."""
    image: Image = Image(repository="weir")
    config: UpSettings = CONFIG
    """What `weir up` reads, with its own keys; they are listed below."""
    catalog: CatalogValues = CatalogValues()
    keys: KeysValues = KeysValues()
    ray: Ray = Ray()
    service_account: ServiceAccount = ServiceAccount()
    pod_security_context: Mapping[str, Any] = POD_RESTRICTED
    """Of head, workers, and the Job."""
    security_context: Mapping[str, Any] = RESTRICTED
    """Of every container."""
    head: HeadValues = HeadValues()
    worker: Workers = Workers()
    worker_groups: Mapping[DnsLabel, WorkerGroup] = {"default": WorkerGroup()}
    """By name; a group that is null is left out."""
    api: Api = Api()
    ingest: IngestValues = IngestValues()
    monitoring: Monitoring = Monitoring()
    network_policy: NetworkPolicy = NetworkPolicy()
    priority_classes: Sequence[PriorityClassValues] = []
    """Documents of kind PriorityClass, which the Job declares."""
    tenants: Sequence[TenantValues] = []
    """Documents of kind Tenant, which the Job declares. One that is taken out of the list is not deleted."""
    mirrors: Annotated[Sequence[MirrorValues], Field(max_length=100)] = []
    """Documents of kind Mirror, which the Job declares and the head pod polls; the same holds of these. A database's password is
    `PGPASSWORD` of a Secret that `api.extraEnvFrom` names."""
    apply: Apply = Apply()
    tests: Tests = Tests()
    extra_objects: Sequence[Object] = []
    """Further objects; what is in them is rendered as a template."""

    def up_settings(self) -> UpSettings:
        """What the pod's `weir up` is given."""
        if not self.api.tls.enabled:
            return self.config
        files = {"tls_certificate": f"{TLS_FOLDER}/tls.crt", "tls_key": f"{TLS_FOLDER}/tls.key"}
        service = self.config.service.model_copy(update=files)
        return UpSettings.model_validate({**self.config.model_dump(), "service": service.model_dump()})


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """As Helm lays values over the chart's: key by key, lists whole, null takes away."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result
