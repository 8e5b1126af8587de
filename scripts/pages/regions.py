"""Parts of pages that are generated from the sources, between two marks:

    <!-- made: settings of brokers -->
    ...
    <!-- until here -->

`python -m scripts.pages` updates them in all pages; `make docs` does so, too. What is outside of
the marks is written by hand.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from scripts.pages import metrics, requests, sdks, settings, spark_options

PAGES: Final = Path(__file__).parents[2] / "docs"

MADE: Final[Mapping[str, Callable[[], str]]] = {
    "settings of brokers": settings.broker_settings,
    "settings of name servers": settings.name_server_settings,
    "what brokers refuse": settings.refused_by_brokers,
    "what name servers refuse": settings.refused_by_name_servers,
    "what has no effect": settings.harmless,
    "metrics": metrics.table,
    "metrics of queries": metrics.pipeline_table,
    "requests to brokers": requests.to_brokers,
    "requests to name servers": requests.to_name_servers,
    "options for reading": spark_options.reading,
    "options for directories": spark_options.directories,
    "options for writing": spark_options.writing,
    "what SDKs can do": sdks.matrix,
}

_REGION: Final = re.compile(
    r"(<!-- made: (?P<name>[\w ]+) -->\n).*?(<!-- until here -->)", re.DOTALL
)


def refreshed(text: str) -> str:
    """A page with its generated parts up to date. Raises KeyError for an unknown name."""
    return _REGION.sub(lambda found: f"{found[1]}\n{MADE[found['name']]()}\n\n{found[3]}", text)


def names_in(text: str) -> list[str]:
    return [found["name"] for found in _REGION.finditer(text)]


def refresh_all() -> list[Path]:
    """Writes the pages that have changed, and returns them."""
    changed = []
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (wanted := refreshed(text)) != text:
            page.write_text(wanted, encoding="utf-8")
            changed.append(page)
    return changed
