"""Archives of the project's images for the node, built by the project's Dockerfiles and kept in a cache.

`bases/build` builds the images as root, without a registry of images. The folder `images` of the cluster's cache has two kinds of entries:

- `layers-HASH` contains the base images and the layers of the Dockerfiles. The files in `LASTING` decide its name.
- `archives-HASH` contains an archive of each image. All files that the Dockerfiles read decide its name.

`python -m tests.cluster.archives` builds what is missing: about a quarter of an hour for the layers, and some minutes for the archives.
With `--check`, the command only says whether the layers are in the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.cluster.programs import CACHE
from tests.support.build_cache import BuildError, cache_folder, hash_of, locked, remove_old, work_folder
from tests.support.checkout import ROOT

NAMES = ("weir", "weir-ingest")
BASES = "tests/cluster/bases"
DOCKERFILES = ("Dockerfile", "Dockerfile.ingest", ".dockerignore")
LASTING = (BASES, *DOCKERFILES, "requirements.txt", "requirements-build.txt", "helm/spark-jars")
KEPT = 2
"""Number of entries of each kind that stay in the cache. An entry takes some gigabytes."""
NEEDED = ("debootstrap", "buildah", "unshare", "setpriv")
COMPILED = "__pycache__"


def files_of(root: Path, names: Iterable[str]) -> list[Path]:
    """Return the files with these names, and the files in the folders with these names."""
    paths = [path for name in names for path in (root / name, *(root / name).rglob("*"))]
    return sorted(path for path in paths if path.is_file() and COMPILED not in path.parts)


def names_read(root: Path) -> list[str]:
    """Return the names of all files and folders that a build reads. `.dockerignore` lists those of the Dockerfiles."""
    lines = (root / ".dockerignore").read_text("utf-8").splitlines()
    return [BASES, *DOCKERFILES, *(line[1:] for line in lines if line.startswith("!"))]


def hash_of_files(root: Path, names: Iterable[str]) -> str:
    files = files_of(root, names)
    parts = [f"{file.relative_to(root)} {os.access(file, os.X_OK)}\n".encode() for file in files]
    return hash_of(
        part for name, file in zip(parts, files, strict=True) for part in (name, file.read_bytes())
    )


def images_folder() -> Path:
    folder = cache_folder(CACHE) / "images"
    folder.mkdir(exist_ok=True)
    return folder


def layers_of(root: Path) -> Path:
    return images_folder() / f"layers-{hash_of_files(root, LASTING)}"


def archives_of(root: Path) -> Path:
    return images_folder() / f"archives-{hash_of_files(root, names_read(root))}"


def archives() -> list[Path]:
    """Return the archives of this checkout's images. Raise BuildError if `make images` has not built them."""
    folder = archives_of(ROOT)
    if not folder.exists():
        raise BuildError("the images of this checkout are not built: make images")
    return [folder / f"{name}.tar" for name in NAMES]


def copy_files(target: Path) -> None:
    """Copy all files that a build reads. Their times are equal in all copies, so that buildah recognises the layers of other checkouts."""
    for file in files_of(ROOT, names_read(ROOT)):
        copied = target / file.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copied)
        os.utime(copied, (0, 0))
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        os.utime(folder, (0, 0))


def build_missing() -> Path:
    """Build the archives of this checkout if the cache lacks them, and return their folder. Raise BuildError if the build fails."""
    with locked(images_folder()), work_folder(images_folder()) as work:
        source = work / "source"
        copy_files(source)
        layers, built = layers_of(source), archives_of(source)
        if not built.exists():
            check_tools()
            if not layers.exists():
                build(work, "layers", work / "layers")
                (work / "layers").rename(layers)
            build(work, "archives", layers)
            (work / "archives").rename(built)
        for entry in (layers, built):
            if entry.exists():
                os.utime(entry)
        for kind in ("layers", "archives"):
            remove_old(images_folder().glob(f"{kind}-*"), KEPT)
    return built


def check_tools() -> None:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise BuildError(f"{' and '.join(missing)} missing; `.ci/tools images` installs packages")


def build(work: Path, target: str, layers: Path) -> None:
    """Build the layers or the archives from the copied files, with mounts and processes that end with this process."""
    print(f"images: building {target}", flush=True)
    log = images_folder() / f"{target}.log"
    isolated = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
    with log.open("wb") as output:
        done = subprocess.run(
            [*isolated, "--mount-proc", work / "source" / BASES / "build", target, layers, work],
            cwd=work / "source",
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    if done.returncode != 0:
        reason = log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
        raise BuildError(f"building {target} failed: {reason} (see {log})")


def main(arguments: Sequence[str]) -> int:
    if "--check" in arguments:
        is_here = layers_of(ROOT).exists()
        print(f"images: the layers of the Dockerfiles are {'in' if is_here else 'missing from'} the cache")
        return 0 if is_here else 1
    try:
        folder = build_missing()
    except BuildError as problem:
        print(f"images: {problem}", file=sys.stderr)
        return 1
    print(f"images: {' and '.join(NAMES)} are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
