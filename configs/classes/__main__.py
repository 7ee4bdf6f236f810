"""Generator of the table of policies in docs/scenarios.md, which is made from the settings models of the policies.

python -m configs.classes      writes the table (`make policies`)
"""

from __future__ import annotations

from pathlib import Path

from configs.base import Settings
from configs.classes.policies import POLICY_MODELS

PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"
BEGIN, END = "<!-- `make policies` writes this table -->\n", "<!-- end of the table -->\n"


def policy_table() -> str:
    rows = [
        f"| `{model.model_fields['kind'].default}` | {settings_of(model)} | {line_of(model)} |"
        for model in POLICY_MODELS
    ]
    return "\n".join(
        ["| kind | settings, with defaults | what runs first: what it is for |", "|---|---|---|", *rows, ""]
    )


def settings_of(model: type[Settings]) -> str:
    """Return the names of a policy's settings, with their defaults."""
    fields = {name: field.default for name, field in model.model_fields.items() if name != "kind"}
    return ", ".join(f"`{name}` ({str(default).lower()})" for name, default in fields.items())


def line_of(model: type[Settings]) -> str:
    """Return one line that describes a policy: the first paragraph of its docstring, without words that most policies have in common."""
    assert model.__doc__, model
    line = (
        " ".join(model.__doc__.partition("\n\n")[0].split())
        .removeprefix("Policy that runs ")
        .removeprefix("first ")
    )
    return line[0].upper() + line[1:]


def written(page: str) -> str:
    """Return the page docs/scenarios.md with a new table of policies."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + policy_table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
