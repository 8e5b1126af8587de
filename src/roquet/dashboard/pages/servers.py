"""What waits at brokers, the brokers and their settings, accounts, and what was changed here."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from roquet.client.admin.cluster import BrokerAccounts, BrokerInfo
from roquet.client.errors import ClientError
from roquet.dashboard.pages.rendering import DASHBOARD, page
from roquet.dashboard.pages.sharing import shared

# Settings that every broker has for itself.
_OWN: Final = frozenset(
    {"brokerId", "brokerIP1", "brokerIP2", "brokerName", "brokerRole", "haListenPort", "listenPort"}
)
_SECRET: Final = ("secret", "password")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """`values` are by address; brokers that do not report it are left out."""

    key: str
    values: Mapping[str, str]
    is_different: bool


def setting_rows(configs: Mapping[str, Mapping[str, str]]) -> list[SettingRow]:
    """What differs comes first. What is a secret is not shown."""
    keys = sorted({key for config in configs.values() for key in config})
    rows = []
    for key in keys:
        if any(word in key.lower() for word in _SECRET):
            continue
        values = {address: each[key] for address, each in configs.items() if key in each}
        is_different = key not in _OWN and len(set(values.values())) > 1
        rows.append(SettingRow(key, values, is_different))
    return sorted(rows, key=lambda row: (not row.is_different, row.key))


async def waiting(request: web.Request) -> web.Response:
    return page(request, "waiting.html")


async def brokers(request: web.Request) -> web.Response:
    """Settings and accounts are asked for now."""
    dashboard = request.app[DASHBOARD]
    snapshot = dashboard.poller.snapshot
    known = () if snapshot is None else snapshot.brokers
    answering = [each for each in known if each.error is None]
    configs = await asyncio.gather(*(_config(request, each) for each in answering))
    masters = [each for each in answering if each.is_master]
    found = {each.address: config for each, config in zip(answering, configs, strict=True)}
    return page(
        request,
        "brokers.html",
        brokers=known,
        addresses=list(found),
        rows=setting_rows(found),
        accounts=await _accounts(request, masters),
    )


async def _config(request: web.Request, broker: BrokerInfo) -> Mapping[str, str]:
    try:
        return await request.app[DASHBOARD].admin.broker_config(broker.address)
    except ClientError:
        return {}


async def _accounts(request: web.Request, masters: Sequence[BrokerInfo]) -> BrokerAccounts | None:
    """Of the first master; None where there is no access control, or none that can be asked."""
    if not masters:
        return None
    try:
        return await request.app[DASHBOARD].admin.broker_accounts(masters[0].address)
    except ClientError:
        return None


async def audit(request: web.Request) -> web.Response:
    return page(request, "audit.html", entries=list(request.app[DASHBOARD].audit)[:200])


ROUTES: Final = (
    web.get("/waiting", shared(waiting)),
    web.get("/brokers", brokers),
    web.get("/audit", audit),
)
