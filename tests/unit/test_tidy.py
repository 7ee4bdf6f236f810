"""Rules for the repository, checked by reading the source without importing it.

Packages and folders import in one direction (`MAY_IMPORT`, `LAYERS`). The pure ring decides from its arguments alone, so that the
same code runs live and in virtual time (`REFUSED_IN_PURE_RING`). Every module is imported somewhere. No file ties the
repository to one machine or one package registry. Texts are plain English (`tests.support.prose`). Each rule has a test that it finds a
violation.
"""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest

from tests.support.checkout import ROOT
from tests.support.prose import SUFFIXES, findings

MAY_IMPORT: dict[str, set[str]] = {
    "configs": set(),
    "scheduler": {"configs"},
    "loadshed": {"configs", "scheduler"},
    "engine": {"configs", "scheduler", "loadshed"},
    "sim": {"configs", "scheduler", "loadshed", "engine"},
    "actors": {"configs", "scheduler", "loadshed", "engine"},
    "pyspark_weir": set(),
    "pyspark_weir_feeder": set(),
    "services": {
        *("configs", "scheduler", "loadshed", "engine", "sim", "actors"),
        *("pyspark_weir", "pyspark_weir_feeder"),
    },
    "bench": {"configs", "scheduler", "loadshed", "engine", "sim", "actors", "services", "pyspark_weir"},
}
PACKAGES = set(MAY_IMPORT)
# Folders with packages that are sent to Spark clusters separately, under their own package names.
CONNECTORS = "services/connector/"
PURE_RING = {"engine", "scheduler", "loadshed"}

LAYERS: dict[str, tuple[str, ...]] = {
    "configs": (".", "classes", "scenario", "documents", "service"),
    "scheduler": (".", "windows", "turns", "capacity", "mirrors", "operators"),
    "engine": (
        *("data", "plan", "expressions", "windows", "sql", "operators", "network", "measure", "class_"),
        ".",
    ),
    "actors": ("runtime", "log", "messages", "gateway", "dispatcher", "host", "coordinator", "."),
    "sim": ("run", "forecast", ".", "outcome", "admission", "windows"),
    "services": (
        *("common", "ingest", "race", "chart", "results", "remote", "watch", ".", "tuning"),
        *("mirror", "catalog", "metrics", "api", "dashboards", "plan", "cli"),
    ),
}
"""Folders of each package in the order of their imports: a folder may import those before it. "." is the package itself."""
MODULES_MAX = 20
TWICE = {
    "DefaultSource": "Spark finds the sources of both connectors by this name",
    "WeirError": "the connector is shipped without Weir, and its users catch this",
}
"""Class names that may be defined more than once, each with the reason."""
PARTICIPLE = re.compile(r"^[a-z]+(ing|ed)$")
NOUNS = {"encoding", "tuning", "pruning", "freshening", "staging", "feed", "string", "ring", "monitoring"}

REFUSED_IN_PURE_RING: dict[str, set[str]] = {
    "belongs to the outer rings": {"ray", "pyspark", "actors", "services", "sim"},
    "reads the clock; take `now` as an argument": {
        "time",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
    },
    "is chance without a seed; take a random.Random": {"secrets", "uuid", "os.urandom"},
    "reads the environment": {"os.environ", "os.environb", "os.getenv", "os.getenvb"},
    "reaches outside; the shells do that": {"builtins.open", "io.open", "os.open", "socket"},
    "runs beside the caller; the shells do that": {"asyncio", "threading", "_thread", "concurrent"},
    "starts processes; the shells do that": {"subprocess", "multiprocessing"},
    "hides an import from this test": {"importlib", "builtins.__import__"},
}

# Random numbers must come from a generator with a seed. The functions of the module `random` share one hidden state.
RANDOM_ALLOWED = {"random.Random"}
NUMPY_GENERATORS = {
    f"numpy.random.{name}"
    for name in ("default_rng", "SeedSequence", "PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")
}
NUMPY_RANDOM_ALLOWED = NUMPY_GENERATORS | {"numpy.random.Generator", "numpy.random.BitGenerator"}
NEEDS_A_SEED = RANDOM_ALLOWED | NUMPY_GENERATORS

# Each pattern is joined from several strings, so that this file itself does not match the pattern.
REGISTRY_MARKS = [
    "-".join(("index", "url")),
    "-".join(("find", "links")),
    '"' + 'resolved"' + r"\s*:",
    *(host + r"\.(?:org|com)\b" for host in ("pypi", "pythonhosted", "npmjs", "deb.debian")),
]
TIED_TO_A_REGISTRY = re.compile("|".join(REGISTRY_MARKS))
TIED_TO_A_MACHINE = re.compile(r"(?<!\w)/(?:" + "|".join(("root", "work", "home")) + r")/")


# -- functions that read the source ---------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    line: int
    target: str
    """Full name of the imported module or object: `from a.b import c` has the target a.b.c."""
    binds: str
    """Local name that the import creates."""
    means: str
    """Full name that the local name stands for: `import a.b` creates the local name a, which stands for a."""


@dataclass(frozen=True)
class Module:
    name: str
    path: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_init(self) -> bool:
        return self.path.endswith("__init__.py")

    def imports(self) -> Iterator[Import]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    binds, means = (alias.asname, alias.name) if alias.asname else (top, top)
                    yield Import(node.lineno, alias.name, binds, means)
            elif isinstance(node, ast.ImportFrom):
                source = self._source_of(node)
                for alias in node.names:
                    target = ".".join(filter(None, (source, alias.name)))
                    yield Import(node.lineno, target, alias.asname or alias.name, target)

    def _source_of(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        steps_up = node.level - 1 if self.is_init else node.level
        base = self.name.split(".")
        return ".".join(base[: len(base) - steps_up] + ([node.module] if node.module else []))


def module_from(path: str, source: str) -> Module:
    parts = path.removeprefix(CONNECTORS).removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return Module(".".join(parts), path, ast.parse(source, path))


@cache
def modules() -> list[Module]:
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return [module_from(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


@dataclass
class Mentions(ast.NodeVisitor):
    """Visitor that collects each use of an imported or built-in name: the full name, and the call if the name is called."""

    means: dict[str, str]
    """Full name by each imported local name of the module."""
    found: list[tuple[int, str, ast.Call | None]] = field(default_factory=list)

    def visit_Call(self, node: ast.Call) -> None:
        full_name = self._full_name(node.func)
        if full_name:
            self.found.append((node.lineno, full_name, node))
        else:
            self.visit(node.func)
        for argument in (*node.args, *node.keywords):
            self.visit(argument)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        full_name = self._full_name(node)
        if full_name:
            self.found.append((node.lineno, full_name, None))
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.found.append((node.lineno, self._meaning(node), None))

    def _meaning(self, name: ast.Name) -> str:
        return self.means.get(name.id, f"builtins.{name.id}")

    def _full_name(self, node: ast.expr) -> str | None:
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or (attributes and node.id not in self.means):
            return None
        return ".".join((self._meaning(node), *reversed(attributes)))


def prefixes(dotted: str) -> set[str]:
    parts = dotted.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts) + 1)}


def report(findings: list[str]) -> None:
    assert not findings, "\n" + "\n".join(findings)


# -- the picture of the dependencies between packages ----------------------------------------------


def wrong_way_imports(module: Module) -> list[str]:
    allowed = MAY_IMPORT[module.package] | {module.package}
    own = PACKAGES | {"tests"}
    return [
        f"{module.path}:{found.line}: {module.package} may not import {found.target}"
        for found in module.imports()
        if found.target.partition(".")[0] in own - allowed
    ]


def test_imports_point_inward() -> None:
    report([finding for module in modules() for finding in wrong_way_imports(module)])


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("configs/classes/priority_class.py", "import engine"),
        ("scheduler/turns/round_robin.py", "from loadshed.ledger import Ledger"),
        ("scheduler/turns/round_robin.py", "def turn() -> None:\n    from engine import plan"),
        ("loadshed/aloma.py", "import sim.clock as clock"),
        ("engine/plan/plan.py", "from actors import host"),
        ("sim/heap.py", "from services.cli import main"),
        ("actors/host.py", "import bench.latency"),
        ("actors/host.py", "from .. import services"),
        ("services/api/app.py", "from tests.support import streams"),
    ],
)
def test_an_import_pointing_outward_is_found(path: str, source: str) -> None:
    assert len(wrong_way_imports(module_from(path, source))) == 1


def test_imports_pointing_inward_pass_the_check() -> None:
    source = "import numpy\nfrom configs.classes.priority_class import Priority\nfrom . import hr\nimport scheduler.turns.round_robin"
    assert wrong_way_imports(module_from("scheduler/capacity/redistribution.py", source)) == []


def test_the_picture_is_layered_and_names_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["sources"] == {CONNECTORS.rstrip("/"): ""}
    connectors = {path.parent.name for path in (ROOT / CONNECTORS).glob("*/__init__.py")}
    assert set(wheel["only-include"]) | connectors | {"bench"} == PACKAGES
    for package in PACKAGES - {"services", "bench"}:
        assert all(MAY_IMPORT[inner] < MAY_IMPORT[package] for inner in MAY_IMPORT[package])


# -- imports between folders of a package ------------------------------------------------------------


def folder_of(dotted: str, package: str, folders: set[str]) -> str:
    """Return the folder of a module within its package. "." means the package itself."""
    first = dotted.removeprefix(package + ".").partition(".")[0]
    return first if first in folders else "."


def outward_imports(module: Module, layers: Sequence[str]) -> list[str]:
    """Return the imports that break the order of `layers`: a folder may import only folders before it."""
    own = folder_of(module.name, module.package, set(layers))
    allowed = set(layers[: layers.index(own) + 1])
    return [
        f"{module.path}:{found.line}: {module.package}/{own} may not import {found.target}"
        for found in module.imports()
        if found.target.startswith(module.package + ".")
        and folder_of(found.target, module.package, set(layers)) not in allowed
    ]


def test_folders_import_only_folders_that_come_before_them_in_the_order() -> None:
    report(
        [
            finding
            for module in modules()
            if module.package in LAYERS and not (module.is_init and "." not in module.name)
            for finding in outward_imports(module, LAYERS[module.package])
        ]
    )


def test_every_folder_has_its_place_in_the_order() -> None:
    for package, layers in LAYERS.items():
        there = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        assert there == set(layers) - {"."}, package


def test_an_import_of_a_folder_that_comes_later_in_the_order_is_found() -> None:
    source = "from engine.sql.select import plan_query\nfrom engine.data import train"
    module = module_from("engine/plan/pruning.py", source)
    assert outward_imports(module, LAYERS["engine"]) == [
        "engine/plan/pruning.py:1: engine/plan may not import engine.sql.select.plan_query"
    ]


def crowded(paths: Sequence[str]) -> list[str]:
    count = Counter(path.rpartition("/")[0] for path in paths if not path.endswith("/__init__.py"))
    return [f"{folder}: {number} modules" for folder, number in count.items() if number > MODULES_MAX]


def product_paths() -> list[str]:
    return [module.path for module in modules() if module.package not in {"bench"}]


def test_no_product_folder_has_more_than_20_modules() -> None:
    report(crowded(product_paths()))
    assert crowded([f"engine/a{number}.py" for number in range(MODULES_MAX + 1)]) == ["engine: 21 modules"]


def named_by_a_participle(paths: Sequence[str]) -> list[str]:
    stems = {path: path.rpartition("/")[2].removesuffix(".py") for path in paths}
    return [path for path, stem in stems.items() if PARTICIPLE.match(stem) and stem not in NOUNS]


def test_modules_are_named_by_nouns() -> None:
    report(named_by_a_participle(product_paths()))
    assert named_by_a_participle(["actors/telling.py", "scheduler/tuning.py"]) == ["actors/telling.py"]


def defined_twice(found: Sequence[Module]) -> list[str]:
    names = Counter(
        node.name for module in found for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in names.items() if count > 1)


def test_class_names_are_unique_except_for_listed_names_with_a_reason() -> None:
    assert defined_twice([module for module in modules() if module.package != "bench"]) == sorted(TWICE)
    sources = ["class Door: ...", "class Door: ...\nclass Node: ..."]
    assert defined_twice([module_from("engine/a.py", source) for source in sources]) == ["Door"]


def test_every_folder_has_a_description_in_its_init_file() -> None:
    inits = [module for module in modules() if module.is_init and module.package in LAYERS]
    short = [one.path for one in inits if len((ast.get_docstring(one.tree) or "").split()) < 5]
    report(short)


# -- the pure ring: packages that decide without clock or I/O ---------------------------------------


def impurities(module: Module) -> list[str]:
    imports = list(module.imports())
    mentions = Mentions({found.binds: found.means for found in imports})
    mentions.visit(module.tree)
    wrong = [
        *((found.line, found.target, why_import_is_refused(found.target)) for found in imports),
        *((line, name, why_mention_is_refused(name, call)) for line, name, call in mentions.found),
    ]
    return [f"{module.path}:{line}: {name} {why}" for line, name, why in sorted(set(wrong), key=str) if why]


def why_import_is_refused(target: str) -> str | None:
    if target.endswith(".*"):
        return "hides names from this test"
    if target in {"random", "numpy.random"}:
        return None
    return why_name_is_refused(target)


def why_mention_is_refused(name: str, call: ast.Call | None) -> str | None:
    if call and name in NEEDS_A_SEED and not has_a_seed(call):
        return "is chance without a seed; pass one"
    if not call and name in NUMPY_GENERATORS:
        return "is handed on without a seed; call it with one"
    return why_name_is_refused(name)


def why_name_is_refused(name: str) -> str | None:
    within = prefixes(name)
    for why, names in REFUSED_IN_PURE_RING.items():
        if names & within:
            return why
    if ("random" in within and not within & RANDOM_ALLOWED) or (
        "numpy.random" in within and not within & NUMPY_RANDOM_ALLOWED
    ):
        return "is chance without a seed; take a random.Random"
    return None


def has_a_seed(call: ast.Call) -> bool:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in values)


def test_the_pure_ring_decides_from_its_arguments_alone() -> None:
    report([finding for module in modules() if module.package in PURE_RING for finding in impurities(module)])


@pytest.mark.parametrize(
    "source",
    [
        "import ray",
        "from pyspark.sql import DataFrame",
        "import actors.host",
        "from services import catalog",
        "from sim import clock",
        "import time",
        "import time as t",
        "from time import monotonic",
        "from datetime import datetime\ndatetime.now()",
        "from datetime import datetime as dt\ndefault = dt.utcnow",
        "import datetime\ndatetime.datetime.today()",
        "import datetime as dt\ndt.date.today()",
        "import random\nrandom.random()",
        "import random\nrandom.seed(1)",
        "import random as chance\nchance.choice([1])",
        "import random\nrng = random",
        "import random\nrandom.Random()",
        "import random\nrandom.Random(None)",
        "import random\nrandom.SystemRandom()",
        "from random import choice",
        "from random import *",
        "import numpy as np\nnp.random.rand(3)",
        "import numpy as np\nnp.random.seed(1)",
        "from numpy import random\nrandom.shuffle([1])",
        "from numpy.random import normal",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.default_rng(seed=None)",
        "from numpy.random import default_rng\nmake = default_rng",
        "import secrets",
        "from uuid import uuid4",
        "import os\nos.urandom(8)",
        "import os\nos.environ['HOME']",
        "import os\nos.getenv('HOME')",
        "from os import environb",
        "open('x')",
        "import io\nio.open('x')",
        "import builtins\nbuiltins.open('x')",
        "def read():\n    with open('x') as file:\n        return file.read()",
        "import socket",
        "import threading",
        "import asyncio",
        "import subprocess",
        "import concurrent.futures",
        "import importlib",
        "__import__('time')",
    ],
)
def test_an_import_or_call_that_the_pure_ring_may_not_contain_is_found(source: str) -> None:
    assert impurities(module_from("scheduler/turns/round_robin.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime, timedelta\nstart = datetime.fromtimestamp(0)",
        "import random\ndef pick(rng: random.Random) -> float:\n    return rng.random()",
        "from random import Random\nrng = Random(f'{7}/wrr')",
        "import numpy as np\nrng: np.random.Generator = np.random.default_rng(7)\nrng.random()",
        "import numpy as np\nnp.random.Generator(np.random.PCG64(seed=7))",
        "import os.path\nos.path.join('a', 'b')",
        "class Window:\n    def open(self) -> None: ...\nWindow().open()",
        "def step(time: float, sim: Clock) -> float:\n    return time + sim.now",
    ],
)
def test_code_that_the_pure_ring_may_contain_passes(source: str) -> None:
    assert impurities(module_from("engine/operators/window.py", source)) == []


# -- modules that nothing imports -------------------------------------------------------------------


# Alembic finds database migrations by their folder, without an import.
MIGRATIONS = "/migrations/versions/"


def unused(among: list[Module], entry_points: set[str]) -> list[str]:
    used = entry_points.copy()
    for module in among:
        targets = [found.target for found in module.imports()]
        used |= set().union(*map(prefixes, targets)) - {module.name}
    return [
        f"{module.path}: nothing imports it; wire it in or remove it"
        for module in among
        if module.name not in used
        and not module.path.endswith(("__init__.py", "__main__.py"))
        and MIGRATIONS not in module.path
    ]


def declared_entry_points(pyproject: str) -> set[str]:
    project = tomllib.loads(pyproject)["project"]
    tables = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
    return {target.partition(":")[0] for table in tables for target in table.values()}


def imported_late(source: str) -> set[str]:
    """Return the names of the modules that `services.cli.main` loads for its commands."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {ast.literal_eval(one.args[0]) for one in calls if ast.unparse(one.func) == "CommandPlace"}


def test_every_module_is_imported_or_is_an_entry_point() -> None:
    entry_points = declared_entry_points((ROOT / "pyproject.toml").read_text("utf-8"))
    commands = imported_late((ROOT / "services/cli/main.py").read_text("utf-8"))
    assert "services.cli.commands.up" in commands
    report(unused(modules(), entry_points | commands))


def test_a_module_that_only_imports_itself_is_found() -> None:
    among = [
        module_from("bench/__main__.py", "from scheduler.turns import round_robin"),
        module_from("scheduler/__init__.py", ""),
        module_from("scheduler/turns/round_robin.py", "import configs.classes.priority_class"),
        module_from("scheduler/orphan.py", "from scheduler.orphan import x"),
        module_from("configs/classes/priority_class.py", ""),
        module_from("services/cli/main.py", ""),
    ]
    entry_points = declared_entry_points('[project.scripts]\nweir = "services.cli.main:main"')
    assert unused(among, entry_points) == ["scheduler/orphan.py: nothing imports it; wire it in or remove it"]


# -- names of one machine or of one package registry --------------------------------------------------


def ties(path: str, text: str) -> list[str]:
    return [
        f"{path}:{number}: {what}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern, what in (
            (TIED_TO_A_REGISTRY, "names a package registry"),
            (TIED_TO_A_MACHINE, "names a path of one machine"),
        )
        if pattern.search(line)
    ]


def text_files() -> Iterator[tuple[str, str]]:
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if not path.is_file():  # the file is deleted but still in git's index
            continue
        try:
            yield name, path.read_text("utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git knows which files are the project's")
def test_no_file_is_tied_to_one_machine_or_registry() -> None:
    files = dict(text_files())
    assert "pyproject.toml" in files
    report([finding for name, text in files.items() for finding in ties(name, text)])


@pytest.mark.parametrize(
    "pieces",
    [
        ("--index", "-url https://example.test/simple"),
        ("--extra-index", "-url=x"),
        ("--find", "-links wheels"),
        ('"resolved', '": "https://example.test/a.tgz"'),
        ("https://files.python", "hosted.org/a.whl"),
        ("https://registry.npm", "js.org/a"),
        ("cd /ro", "ot/weir"),
        ("file:///wo", "rk/weir"),
        ('path = "/ho', 'me/me/weir"'),
    ],
)
def test_a_tie_to_one_machine_or_registry_is_found(pieces: tuple[str, str]) -> None:
    assert len(ties("setup.cfg", f"first line\n{''.join(pieces)}\n")) == 1


def test_similar_text_is_not_taken_for_a_tie_to_a_machine_or_registry() -> None:
    assert ties("README.md", "docs/work/turns.md, /api/home, the index of the url, links to find") == []


# -- plain English in texts ---------------------------------------------------------------------------------------

PROSE_ALLOWED = ROOT / "tests" / "support" / "prose_allowed.txt"
GENERATED = re.compile(r"^tests/golden/|/migrations/versions/")


def allowed_findings() -> dict[str, int]:
    """Return how many violations of plain English each file may have."""
    lines = PROSE_ALLOWED.read_text("utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {path: int(count) for count, path in pairs}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git knows which files are the project's")
def test_texts_keep_to_the_mechanical_rules_of_plain_english() -> None:
    found = {
        path: list(findings(path, text))
        for path, text in text_files()
        if path.endswith(tuple(SUFFIXES)) and not GENERATED.search(path)
    }
    allowed = allowed_findings()
    report([line for path, lines in found.items() if len(lines) > allowed.get(path, 0) for line in lines])
    unused = {path: count for path, count in allowed.items() if len(found.get(path, ())) < count}
    assert unused == {}, f"lower these numbers in {PROSE_ALLOWED.name}; they may only shrink"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.py", '"""Whether the queue is full."""'),
        ("a.py", "# The reader, who waits here, is woken."),
        ("a.py", 'option(help="Of the tenant.")'),
        ("docs/a.md", "The service tells the reader."),
        ("docs/a.md", "The host begins anew."),
        ("docs/a.md", "One gateway runs so long."),
        ("docs/a.md", "There is one a node."),
        ("docs/a.md", "The sum comes to three."),
        ("helm/a.yaml", "image: x # " + "word " * 33),
    ],
)
def test_a_text_that_is_not_plain_is_found(path: str, source: str) -> None:
    assert len(list(findings(path, source))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.py", '"""Return True if the queue is full."""'),
        ("docs/a.md", "A tenant who waits, and for whom, is a person. `who` is code."),
        ("docs/a.md", "```\nthe code tells\n```"),
    ],
)
def test_a_plain_text_passes_the_check_of_plain_english(path: str, source: str) -> None:
    assert list(findings(path, source)) == []
