"""Spark's executors on Kubernetes: the session that the chart declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.java_gateway import launch_gateway

from configs.documents.declarations import SessionDeclaration, documents_of
from tests.helm.chart import CHART, NAMESPACE, RELEASE, containers, named, rendered

pytestmark = pytest.mark.helm
# Any name that begins like this is a valid name of a Spark setting, because users choose the rest of the name.
PREFIXES = ("spark.kubernetes.executor.label.",)


def session(**ingest: Any) -> SessionDeclaration:
    values = {"ingest": {"executors": {"enabled": True}, **ingest}}
    objects = rendered(CHART / "ci" / "minimal-values.yaml", values=values)
    text = named(objects, "ConfigMap", f"{RELEASE}-weir-documents")["data"]["documents.yaml"]
    declared = [document.declaration for document in documents_of(text)]
    (found,) = [one for one in declared if isinstance(one, SessionDeclaration)]
    return found


@pytest.fixture
def jvm() -> Iterator[Any]:
    """A JVM with Spark's classes, but without a session."""
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    yield gateway.jvm
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


@pytest.mark.spark
def test_spark_knows_every_setting_of_the_rendered_session(jvm: Any) -> None:
    # Spark knows the settings of a Java class only after the class is loaded.
    for name in ("org.apache.spark.deploy.k8s.Config$", "org.apache.spark.internal.config.package$"):
        jvm.java.lang.Class.forName(name)
    entries = jvm.org.apache.spark.internal.config.ConfigEntry

    def is_known(key: str) -> bool:
        return entries.findEntry(key) is not None or key.startswith(PREFIXES)

    assert not is_known("spark.kubernetes.authenticate.serviceAccountName")
    assert [key for key in session(image={"pullSecrets": ["one"]}).conf if not is_known(key)] == []


def test_executors_pull_their_image_as_the_driver_does() -> None:
    conf = session(image={"pullSecrets": ["one", "two"]}).conf
    assert conf["spark.kubernetes.container.image.pullSecrets"] == "one,two"
    assert "spark.kubernetes.container.image.pullSecrets" not in session().conf


def test_executors_run_as_the_account_of_the_driver() -> None:
    key = "spark.kubernetes.authenticate.executor.serviceAccountName"
    assert session().conf[key] == f"{RELEASE}-weir-ingest"


def test_executors_reserve_enough_memory_for_their_python_processes() -> None:
    """Check the memory beyond the heap. By default it is a tenth of the heap, but the Python processes of an executor need more."""
    assert session().conf["spark.executor.memoryOverheadFactor"] == "0.4"


def test_executors_call_the_driver_by_its_service_and_not_by_the_address_at_which_it_listens() -> None:
    conf = session().conf
    assert conf["spark.driver.host"] == f"{RELEASE}-weir-ingest.{NAMESPACE}.svc"
    assert conf["spark.kubernetes.executor.useDriverPodIP"] == "false"


def test_driver_gets_the_name_of_its_pod_from_an_environment_variable() -> None:
    objects = rendered(values={"ingest": {"executors": {"enabled": True}}})
    (container,) = containers(named(objects, "Deployment", f"{RELEASE}-weir-ingest")["spec"]["template"])
    (name,) = [variable for variable in container["env"] if variable["name"] == "POD_NAME"]
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_startup_probe_gives_spark_ten_minutes_to_start() -> None:
    (container,) = containers(named(rendered(), "Deployment", f"{RELEASE}-weir-ingest")["spec"]["template"])
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 600
    assert "initialDelaySeconds" not in container["livenessProbe"]
