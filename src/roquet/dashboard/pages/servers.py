"""What waits at brokers, the brokers and their settings, and what was changed here."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import msgspec
from aiohttp import web

from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.waiting import DUE_BOUNDS
from roquet.client.errors import ClientError
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages import changes
from roquet.dashboard.pages.accounts import first_accounts
from roquet.dashboard.pages.rendering import DASHBOARD, link, page
from roquet.dashboard.pages.sharing import shared

# Settings that every broker has for itself.
_OWN: Final = frozenset(
    {
        *("brokerId", "brokerIP1", "brokerIP2", "brokerName", "brokerRole"),
        *("grpcPort", "haListenPort", "listenPort", "storePathCommitLog", "storePathRootDir"),
    }
)
_SECRET: Final = ("secret", "password")
# In the runtime values of Roquet brokers.
_CHANGEABLE: Final = "changeableSettings"
_CONFIGURED: Final = "configuredSettings"

_decode_texts = msgspec.json.Decoder(dict[str, str]).decode


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Of one broker. Only Roquet brokers report what may be changed, and what is configured."""

    values: Mapping[str, str] = field(default_factory=dict)
    changeable: frozenset[str] | None = None
    # In its file, for settings that were changed to something else while it runs.
    configured: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """`values` are by address; brokers that do not report it are left out."""

    key: str
    values: Mapping[str, str]
    is_different: bool
    # None if that is not known.
    is_changeable: bool | None = None
    # By address: what its file has instead.
    configured: Mapping[str, str] = field(default_factory=dict)


def setting_rows(found: Mapping[str, BrokerSettings]) -> list[SettingRow]:
    """What differs comes first. What is a secret is not shown."""
    keys = sorted({key for each in found.values() for key in each.values if not is_secret(key)})
    rows = [_setting_row(key, found) for key in keys]
    return sorted(rows, key=lambda row: (not row.is_different, not row.configured, row.key))


def is_secret(key: str) -> bool:
    return any(word in key.lower() for word in _SECRET)


def _setting_row(key: str, found: Mapping[str, BrokerSettings]) -> SettingRow:
    values = {address: each.values[key] for address, each in found.items() if key in each.values}
    known = [each.changeable for each in found.values() if each.changeable is not None]
    return SettingRow(
        key,
        values,
        key not in _OWN and len(set(values.values())) > 1,
        any(key in each for each in known) if known else None,
        {
            address: each.configured[key]
            for address, each in found.items()
            if key in each.configured
        },
    )


def settings_in(config: Mapping[str, str], runtime: Mapping[str, str]) -> BrokerSettings:
    """From what a broker reports. What cannot be read of its runtime values is not known."""
    changeable = runtime.get(_CHANGEABLE)
    try:
        configured = _decode_texts(runtime.get(_CONFIGURED, "{}"))
    except msgspec.DecodeError:
        configured = {}
    names = None if changeable is None else frozenset(changeable.split(","))
    return BrokerSettings(config, names, configured)


@dataclass(frozen=True, slots=True)
class DueBar:
    """Messages that are due after one span and within another one; None is no limit."""

    after: timedelta | None
    within: timedelta | None
    count: int
    # Of the longest bar, from 0 to 100.
    share: int

    @property
    def label(self) -> str:
        """Blank for those without a limit."""
        if self.within is None:
            return ""
        limit = _in_one_unit(self.within)
        return f"< {limit}" if self.after is None else f"{_in_one_unit(self.after)} - {limit}"


def _in_one_unit(span: timedelta) -> str:
    """Of a limit, which is a whole number of minutes, hours or days."""
    for unit, name in ((timedelta(days=1), "d"), (timedelta(hours=1), "h")):
        if not span % unit:
            return f"{span // unit} {name}"
    return f"{span // timedelta(minutes=1)} min"


def due_bars(counts: Sequence[int]) -> list[DueBar]:
    largest = max(counts, default=0) or 1
    limits = (None, *DUE_BOUNDS, None)
    return [
        DueBar(after, within, count, -(-100 * count // largest))
        for after, within, count in zip(limits, limits[1:], counts, strict=False)
    ]


async def waiting(request: web.Request) -> web.Response:
    snapshot = request.app[DASHBOARD].poller.snapshot
    counts = () if snapshot is None else snapshot.waiting.due_counts
    return page(request, "waiting.html", bars=due_bars(counts))


async def brokers(request: web.Request) -> web.Response:
    """Settings and accounts are asked for now."""
    snapshot = request.app[DASHBOARD].poller.snapshot
    known = () if snapshot is None else snapshot.brokers
    answering = [each for each in known if each.error is None]
    settings = await asyncio.gather(*(_settings(request, each) for each in answering))
    found = {each.address: part for each, part in zip(answering, settings, strict=True)}
    rows = setting_rows(found)
    return page(
        request,
        "brokers.html",
        brokers=known,
        addresses=list(found),
        rows=rows,
        names=sorted({each.broker_name for each in answering}),
        changeable=[each.key for each in rows if each.is_changeable is not False],
        accounts=await first_accounts(request, answering),
    )


async def _settings(request: web.Request, broker: BrokerInfo) -> BrokerSettings:
    admin, address = request.app[DASHBOARD].admin, broker.address
    try:
        config, runtime = await asyncio.gather(
            admin.broker_config(address), admin.broker_runtime(address)
        )
    except ClientError:
        return BrokerSettings()
    return settings_in(config, runtime)


async def change_setting(request: web.Request) -> web.Response:
    """At master and slaves of a name, so that they do not differ."""
    name, key = await changes.field(request, "broker"), await changes.field(request, "key")
    value = await changes.field(request, "value", is_needed=False)
    snapshot = request.app[DASHBOARD].poller.snapshot
    known = () if snapshot is None else snapshot.brokers
    addresses = [each.address for each in known if each.broker_name == name]

    async def act() -> str:
        if not addresses:
            raise BadInput(f"no broker has the name {name!r}")
        return await _change_at(request, addresses, key, value)

    what = f"set {key} of {name} to {'***' if is_secret(key) else value}"
    return await changes.change(request, what, act, link("brokers"))


async def _change_at(request: web.Request, addresses: Sequence[str], key: str, value: str) -> str:
    admin = request.app[DASHBOARD].admin
    texts = []
    for address in addresses:
        before = await admin.broker_config(address)
        if key not in before:
            raise BadInput(f"{address} has no setting {key!r}")
        await admin.update_broker_config(address, {key: value})
        after = await admin.broker_config(address)
        texts.append(f"{address}: {before[key]} → {after.get(key)}")
    return f"{key} is changed. {_joined(texts)}"


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(texts)


async def audit(request: web.Request) -> web.Response:
    return page(request, "audit.html", entries=list(request.app[DASHBOARD].audit)[:200])


ROUTES: Final = (
    web.get("/waiting", shared(waiting)),
    web.get("/brokers", brokers),
    web.post("/brokers/settings", change_setting),
    web.get("/audit", audit),
)
