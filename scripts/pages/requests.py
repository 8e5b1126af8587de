"""What each request needs, from the routes themselves; `docs/security.md` has both tables."""

from collections.abc import Iterable
from typing import Any

from roquet.broker.handlers import ROUTES as BROKER_ROUTES
from roquet.namesrv.handlers import ROUTES as NAME_SERVER_ROUTES
from roquet.net.router import RequestRoute


def to_brokers() -> str:
    return _table(BROKER_ROUTES)


def to_name_servers() -> str:
    return _table(NAME_SERVER_ROUTES)


def _table(routes: Iterable[RequestRoute[Any]]) -> str:
    lines = [
        f"| {int(route.code)} | {route.code.name} | {_needs(route)} |"
        for route in sorted(routes, key=lambda route: route.code)
    ]
    return "\n".join(["| code | name | who may |", "|---|---|---|", *lines])


def _needs(route: RequestRoute[Any]) -> str:
    return "administrators" if route.needs is None else route.needs.text
