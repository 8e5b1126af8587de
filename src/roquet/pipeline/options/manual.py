"""Options as tables of a manual, made from their declarations; docs/spark.md holds them."""

from typing import Any

from roquet.pipeline.options.declaring import declared_options


def option_table(kind: type[Any]) -> str:
    """Markdown, a row an option, in the order of their declaration."""
    rows = ["| option | values | default | meaning |", "|---|---|---|---|"]
    for each in declared_options(kind):
        default = "" if each.default is None else _quoted(each.default)
        rows.append(f"| `{each.name}` | {each.kind.name} | {default} | {each.meaning} |")
    return "\n".join(rows) + "\n"


def _quoted(default: str) -> str:
    return default if "`" in default else f"`{default}`"
