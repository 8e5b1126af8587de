"""What each request needs, as `docs/security.md` tells it.

`python -m tests.support.security_table` prints both tables, to be put there when routes change.
"""

import sys
from collections.abc import Iterable
from typing import Any

from roquet.broker.handlers import ROUTES as BROKER_ROUTES
from roquet.namesrv.handlers import ROUTES as NAME_SERVER_ROUTES
from roquet.net.router import Route


def table(routes: Iterable[Route[Any]]) -> str:
    lines = [
        f"| {int(route.code)} | {route.code.name} | {_needs(route)} |"
        for route in sorted(routes, key=lambda route: route.code)
    ]
    return "\n".join(["| code | name | who may |", "|---|---|---|", *lines])


def _needs(route: Route[Any]) -> str:
    return "administrators" if route.needs is None else route.needs.text


def tables() -> list[str]:
    return [table(BROKER_ROUTES), table(NAME_SERVER_ROUTES)]


if __name__ == "__main__":
    sys.stdout.write("\n\n".join(tables()) + "\n")
