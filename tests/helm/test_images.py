"""Dockerfiles: they pass the linter, install pinned packages, do not run as root, and copy all files of the wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pyspark
import pytest

from configs.documents.spark_sources import KAFKA_ARTIFACT, KAFKA_CONNECTOR
from configs.service.chart_values import RAY_VERSION

pytestmark = pytest.mark.helm
ROOT = Path(__file__).parents[2]
FILES = ("Dockerfile", "Dockerfile.ingest")
# Program that prints the packages that Spark would download for a stream from Kafka.
PACKAGES = """
from configs.documents.spark_streams import StreamsFile
source = {"format": "kafka", "options": {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"},
          "sql": "SELECT timestamp AS ts FROM source"}
file = StreamsFile.model_validate({"streams": {"s": {"columns": {"ts": "timestamp"}, "time": "ts", "source": source}}})
print(*file.packages())
assert set(file.by_connector()) == ({"kafka"} if file.packages() else {""})
"""
each_file = pytest.mark.parametrize("file", FILES)


def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def instructions(file: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", text_of(file))
    return [line for line in joined.splitlines() if line and not line.startswith("#")]


def lint(*files: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert program is not None, "hadolint is missing: make setup"
    return subprocess.run(
        [program, *files], input=stdin, capture_output=True, text=True, cwd=ROOT, check=False
    )


def test_dockerfiles_pass_the_linter() -> None:
    done = lint(*FILES)
    assert (done.returncode, done.stdout) == (0, "")
    assert lint("-", stdin="FROM debian\nRUN cd /tmp && sudo ls\n").returncode == 1


@each_file
def test_an_image_runs_as_a_numeric_user_and_installs_only_pinned_packages(file: str) -> None:
    last = instructions(file)[[line.startswith("FROM") for line in instructions(file)].index(True) :]
    (user,) = [line for line in last if line.startswith("USER")][-1:]
    assert re.fullmatch(r"USER 1000:\d+", user)
    assert not any(line.startswith(("USER 0", "USER root")) for line in last)
    installs = [line for line in instructions(file) if "pip install" in line or "pip wheel" in line]
    assert len(installs) >= 3
    for line in installs:
        assert "--require-hashes" in line or "--no-deps" in line, line
    assert len([line for line in instructions(file) if line.startswith("FROM")]) >= 2
    assert "org.opencontainers.image.licenses" in text_of(file)


@each_file
def test_all_files_of_the_wheel_are_in_the_build_context_and_copied(file: str) -> None:
    pyproject = tomllib.loads(text_of("pyproject.toml"))
    packages = {
        one.partition("/")[0]
        for one in pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    }
    needed = packages | {
        "pyproject.toml",
        pyproject["project"]["readme"],
        *pyproject["project"]["license-files"],
    }
    copied: set[str] = set()
    for line in instructions(file):
        if line.startswith("COPY") and "--from" not in line:
            copied |= {part for part in line.split()[1:-1] if not part.startswith("--")}
    sent = {line[1:] for line in text_of(".dockerignore").splitlines() if line.startswith("!")}
    assert needed <= copied
    assert copied <= sent
    assert all((ROOT / one).exists() for one in sent)


def test_the_build_context_of_the_images_is_small() -> None:
    lines = text_of(".dockerignore").splitlines()
    assert lines[1] == "*"
    sent = [ROOT / line[1:] for line in lines if line.startswith("!")]
    files = [path for one in sent for path in ([one] if one.is_file() else one.rglob("*")) if path.is_file()]
    size = sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    assert size < 10 << 20


def test_the_wheel_has_all_packages_and_no_file_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("weir-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    wanted = ("services/cli/main.py", "pyspark_weir/__init__.py", "pyspark_weir_feeder/__init__.py")
    assert set(wanted) <= set(names)
    assert "services/api/console/index.html" in names
    assert not any(name.startswith(("tests/", "services/connector/")) for name in names)


def test_dockerfile_and_requirements_have_the_same_ray_version() -> None:
    assert f"ARG RAY_VERSION={RAY_VERSION}\n" in text_of("Dockerfile")
    assert re.search(rf"^ray\S*=={re.escape(RAY_VERSION)} ", text_of("requirements.txt"), re.MULTILINE)


def test_the_entrypoint_adds_options_only_to_commands_that_start_executors(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    java.chmod(0o755)
    said = {
        name: name.lower()
        for name in (
            "SPARK_EXECUTOR_MEMORY",
            "SPARK_DRIVER_URL",
            "SPARK_EXECUTOR_ID",
            "SPARK_EXECUTOR_CORES",
            "SPARK_APPLICATION_ID",
            "SPARK_EXECUTOR_POD_IP",
            "SPARK_RESOURCE_PROFILE_ID",
            "SPARK_EXECUTOR_POD_NAME",
        )
    }
    options = {"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Dd=$e"}
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": "/spark", **said, **options}

    def begun(*arguments: str) -> list[str]:
        program = str(ROOT / "helm" / "spark-entrypoint.sh")
        done = subprocess.run([program, *arguments], env=environ, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    found = begun("executor")
    assert found[:4] == ["-Da=b c", "-Dd=$e", "-Xmsspark_executor_memory", "-Xmxspark_executor_memory"]
    assert found[4:6] == ["-cp", "/spark/jars/*"]
    assert found[found.index("--podName") + 1] == "spark_executor_pod_name"
    assert begun("printf", "%s", "as it is") == ["as it is"]


def jars_of_image() -> dict[str, str]:
    """Return the checksum of each jar, by name, from the file with which the build of the image compares the jars."""
    lines = text_of("helm/spark-jars/checksums.txt").splitlines()
    return {name: checksum for checksum, name in (line.split() for line in lines)}


def test_jars_of_the_image_are_pinned_by_version_and_checksum() -> None:
    project = ElementTree.fromstring(text_of("helm/spark-jars/pom.xml"))
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    wanted = {
        f"{jar.findtext('m:artifactId', '', space)}-{jar.findtext('m:version', '', space)}.jar"
        for jar in project.iterfind("m:dependencies/m:dependency", space)
    }
    found = jars_of_image()
    assert (set(found), len(set(found.values()))) == (wanted, len(wanted))
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in found.values())
    assert any(name.startswith(KAFKA_ARTIFACT) for name in found)
    # The image adds only jars that Spark lacks. If a jar existed in two versions, Java would load only one version.
    bundled = {jar.name.rpartition("-")[0] for jar in (Path(pyspark.__file__).parent / "jars").iterdir()}
    assert not {name.rpartition("-")[0] for name in found} & bundled


def test_spark_of_the_image_downloads_no_connector_for_kafka(tmp_path: Path) -> None:
    (copied,) = [line for line in instructions("Dockerfile.ingest") if line.startswith("COPY --from=jars")]
    (home,) = re.findall(r"SPARK_HOME=(\S+)", text_of("Dockerfile.ingest"))
    assert copied.split()[-1] == f"{home}/jars"
    (package := tmp_path / "pyspark").mkdir()
    (package / "__init__.py").touch()
    asked = [sys.executable, "-c", PACKAGES]
    environ = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(asked, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [KAFKA_CONNECTOR]
    (package / "jars").mkdir()
    for name in jars_of_image():
        (package / "jars" / name).touch()
    done = subprocess.run(asked, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_entrypoint_gives_a_user_id_without_a_passwd_entry_a_name() -> None:
    """Hadoop fails for a user id without a name, and some clusters choose such an id."""
    program = str(ROOT / "helm" / "spark-entrypoint.sh")
    as_other = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]
    if subprocess.run([*as_other, "true"], check=False, capture_output=True).returncode:
        pytest.skip("another user id takes namespaces of users")
    if not list(Path("/usr/lib").rglob("libnss_wrapper.so")):
        pytest.skip("libnss-wrapper is missing: make tools")
    done = subprocess.run([*as_other, program, "id", "-un"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "weir"
    done = subprocess.run([program, "env"], capture_output=True, text=True, check=True)
    assert "NSS_WRAPPER" not in done.stdout
