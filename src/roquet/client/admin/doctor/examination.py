"""Asks a cluster for everything that findings are about, and yields them as they are found."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo, certificate_expiry
from roquet.client.admin.doctor import groups, servers, topics
from roquet.client.admin.doctor.finding import Finding
from roquet.client.arguments import utc
from roquet.client.errors import ClientError
from roquet.clock import SystemClock

_CONNECT_TIMEOUT_S: Final = 3.0


async def examine(
    admin: AsyncAdmin, *, topic: str | None = None, group: str | None = None
) -> AsyncIterator[Finding]:
    """Of all topics and groups, or of one. Brokers that do not answer are among the findings.

    `admin` is a `partial` one that has not been asked before.
    """
    errors = await admin.name_servers()
    found = [*servers.of_name_servers(errors)]
    for finding in found:
        yield finding
    if all(errors.values()):
        return
    async for finding in _behind_name_servers(admin, list(errors), topic, group):
        found.append(finding)
        yield finding
    for finding in servers.of_missing(admin.missing, found):
        yield finding


async def _behind_name_servers(
    admin: AsyncAdmin, name_servers: Sequence[str], topic: str | None, group: str | None
) -> AsyncIterator[Finding]:
    brokers, lost = await admin.brokers(), await admin.lost_brokers()
    answering = [each for each in brokers if each.error is None]
    settings = await _settings(admin, answering)
    expiries = await _name_server_certificates(admin)
    now = utc(SystemClock().now_ms())
    for finding in (
        *servers.of_brokers(brokers, name_servers),
        *servers.of_lost(lost, brokers),
        *(each for item in settings.items() for each in servers.of_settings(*item)),
        *_of_machines(answering, settings, now),
        *servers.of_missing_endpoints(settings),
        *await _of_endpoints(answering, settings),
        *(
            each
            for address, expires in expiries.items()
            for each in servers.of_certificate(f"name server {address}", expires, now)
        ),
    ):
        yield finding
    if answering:
        async for finding in topics.examine(admin, topic, settings):
            yield finding
        async for finding in groups.examine(admin, group):
            yield finding


def _of_machines(
    brokers: Sequence[BrokerInfo], settings: Mapping[str, Mapping[str, str]], now: datetime
) -> list[Finding]:
    found: list[Finding] = []
    for broker in brokers:
        found += servers.of_disk(broker, settings.get(broker.broker_name, {}))
        subject = f"broker {broker.broker_name}"
        found += servers.of_certificate(subject, broker.certificate_expires, now)
    return found


async def _of_endpoints(
    brokers: Sequence[BrokerInfo], settings: Mapping[str, Mapping[str, str]]
) -> list[Finding]:
    """Of masters: slaves send their clients there."""

    async def tried(broker: BrokerInfo) -> Finding | None:
        place = servers.endpoint_of(broker, settings.get(broker.broker_name, {}))
        if place is None or not broker.is_master:
            return None
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(*place)
        except TimeoutError:
            text = f"no answer within {_CONNECT_TIMEOUT_S:g} s"
            return servers.of_silent_endpoint(broker, place, text)
        except OSError as error:
            return servers.of_silent_endpoint(broker, place, error.strerror or str(error))
        writer.close()
        return None

    return [each for each in await asyncio.gather(*map(tried, brokers)) if each is not None]


async def _name_server_certificates(admin: AsyncAdmin) -> Mapping[str, datetime | None]:
    """Empty if it is unknown: one that cannot be reached is a finding already."""
    try:
        configs = await admin.name_server_config()
    except ClientError:
        return {}
    return {address: certificate_expiry(each) for address, each in configs.items()}


async def _settings(
    admin: AsyncAdmin, brokers: Sequence[BrokerInfo]
) -> Mapping[str, Mapping[str, str]]:
    """Of the masters that answer, by broker name."""

    async def asked(broker: BrokerInfo) -> Mapping[str, str]:
        try:
            return await admin.broker_config(broker.address)
        except ClientError:
            return {}

    masters = [each for each in brokers if each.is_master]
    answers = await asyncio.gather(*map(asked, masters))
    return {master.broker_name: each for master, each in zip(masters, answers, strict=True)}
