"""The connector is shipped to Spark clusters without Weir, so it may import only pyspark, pyarrow and the standard library."""

import ast
import sys
from pathlib import Path

import pyspark_weir

ALLOWED = {*sys.stdlib_module_names, "pyspark", "pyarrow", "pyspark_weir"}


def imported(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in (*plain, *named)}


def test_connector_imports_only_pyspark_pyarrow_and_the_standard_library() -> None:
    files = sorted(Path(pyspark_weir.__file__).parent.glob("*.py"))
    assert {file.name: imported(file.read_text(encoding="utf-8")) - ALLOWED for file in files} == {
        file.name: set() for file in files
    }
    assert len(files) > 1


def test_an_import_of_a_package_that_the_connector_may_not_use_is_found() -> None:
    assert imported("import numpy as np\nfrom configs.errors import WeirError") == {"numpy", "configs"}
