"""The Dockerfiles: linted, pinned, not root, and with all that the wheel is made of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from configs.service.chart_values import RAY_VERSION

pytestmark = pytest.mark.helm
ROOT = Path(__file__).parents[2]
FILES = ("Dockerfile", "Dockerfile.ingest")
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


def test_linter_has_nothing_to_say() -> None:
    done = lint(*FILES)
    assert (done.returncode, done.stdout) == (0, "")
    assert lint("-", stdin="FROM debian\nRUN cd /tmp && sudo ls\n").returncode == 1


@each_file
def test_image_runs_as_a_user_of_a_number_and_installs_what_is_pinned_alone(file: str) -> None:
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
def test_all_that_the_wheel_is_made_of_is_copied_and_sent(file: str) -> None:
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


def test_build_context_is_small() -> None:
    lines = text_of(".dockerignore").splitlines()
    assert lines[1] == "*"
    sent = [ROOT / line[1:] for line in lines if line.startswith("!")]
    files = [path for one in sent for path in ([one] if one.is_file() else one.rglob("*")) if path.is_file()]
    size = sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    assert size < 10 << 20


def test_wheel_of_the_images_has_everything_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("weir-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    wanted = ("services/cli/main.py", "pyspark_weir/__init__.py", "pyspark_weir_feeder/__init__.py")
    assert set(wanted) <= set(names)
    assert "services/api/console/index.html" in names
    assert not any(name.startswith(("tests/", "services/connector/")) for name in names)


def test_ray_is_of_one_version() -> None:
    assert f"ARG RAY_VERSION={RAY_VERSION}\n" in text_of("Dockerfile")
    assert re.search(rf"^ray\S*=={re.escape(RAY_VERSION)} ", text_of("requirements.txt"), re.MULTILINE)


def test_executor_is_begun_with_its_options_and_what_else_is_asked_for_as_it_is(tmp_path: Path) -> None:
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
