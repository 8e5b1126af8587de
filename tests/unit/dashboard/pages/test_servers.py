"""Settings of brokers and accounts: shown, compared and changed, with a real cluster."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.servers import AdminOptions
from roquet.client.config import Credentials
from roquet.client.producer.producer import AsyncProducer
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.accounts import rights_in, rights_text
from roquet.dashboard.pages.servers import BrokerSettings, due_bars, setting_rows, settings_in
from roquet.protocol.messages.message import Message
from roquet.testing.cluster import Cluster
from tests.support.accounts import ADMIN, accounts_file
from tests.support.dashboards import dashboard

KEY = "longPollingEnable"


def test_settings_that_differ_come_first_and_secrets_never() -> None:
    rows = setting_rows(
        {
            "a:1": BrokerSettings({"listenPort": "1", "same": "x", "zz": "1", "keyPassword": "s"}),
            "b:1": BrokerSettings(
                {"listenPort": "2", "same": "x", "zz": "2"}, configured={"same": "y"}
            ),
        }
    )
    assert [(each.key, each.is_different) for each in rows] == [
        ("zz", True),
        ("same", False),
        ("listenPort", False),
    ]
    assert rows[1].configured == {"b:1": "y"}
    assert all(each.is_changeable is None for each in rows)


def test_only_our_brokers_report_what_may_be_changed() -> None:
    assert settings_in({"a": "1"}, {}) == BrokerSettings({"a": "1"})
    reported = {"changeableSettings": "a,b", "configuredSettings": '{"a": "2"}'}
    ours = settings_in({"a": "1", "c": "3"}, reported)
    first, second = setting_rows({"x:1": ours})
    assert (first.key, first.is_changeable, first.configured) == ("a", True, {"x:1": "2"})
    assert (second.key, second.is_changeable) == ("c", False)
    assert settings_in({}, {"configuredSettings": "broken"}).configured == {}


def test_bars_have_the_share_of_the_longest() -> None:
    bars = due_bars([0, 1, 200, 0, 0, 0, 4])
    assert [each.share for each in bars] == [0, 1, 100, 0, 0, 0, 2]
    assert (bars[0].after, bars[0].within) == (None, timedelta(minutes=1))
    assert (bars[-1].after, bars[-1].within) == (timedelta(days=7), None)
    assert [each.label for each in bars] == [
        *("< 1 min", "1 min - 10 min", "10 min - 1 h", "1 h - 6 h", "6 h - 1 d", "1 d - 7 d", ""),
    ]
    assert due_bars([]) == []


async def test_what_waits_is_counted_by_the_time_until_it_is_due() -> None:
    async with (
        Cluster() as cluster,
        AsyncAdmin(cluster.name_server) as admin,
        AsyncProducer(cluster.name_server, "shop") as producer,
    ):
        topic = await cluster.new_topic("orders", queues=1)
        for level in (3, 4, 5, 18, 18):  # 10 s, 30 s, 1 min, 2 h
            await producer.send(Message(topic, b"level"), delay_level=level)
        for hours in (1.5, 30.0, 60.0):
            await producer.send(Message(topic, b"time"), delay=timedelta(hours=hours))

        await _until_due(admin, (3, 0, 0, 3, 0, 2, 0))
        cluster.clock.advance(timedelta(hours=1))
        # Two of level 18 are due within the hour now, as is the one of an hour and a half.
        await _until_due(admin, (0, 0, 3, 0, 0, 2, 0))


async def _until_due(admin: AsyncAdmin, wanted: tuple[int, ...]) -> None:
    """Messages are indexed, and delivered, a moment later."""
    async with asyncio.timeout(30.0):
        while (await admin.waiting_messages()).due_counts != wanted:  # noqa: ASYNC110  Brokers do not announce it.
            await asyncio.sleep(0.01)


def test_rights_of_a_form() -> None:
    rights = rights_in("orders=PUB|SUB\n payments=DENY")
    assert rights == {"orders": "PUB|SUB", "payments": "DENY"}
    assert rights_in(rights_text(rights)) == rights
    assert rights_in(" ") == {}


@pytest.mark.parametrize("text", ["orders", "orders=ALL", "=PUB", "orders = PUB"])
def test_other_rights_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        rights_in(text)


async def test_a_setting_is_changed_and_differs_from_the_file_then() -> None:
    async with (
        Cluster() as cluster,
        AsyncAdmin(cluster.name_server) as admin,
        dashboard(cluster.name_server, allows_changes=True) as visitor,
    ):
        token = await visitor.token("/brokers")
        change = {"broker": "broker-a", "key": KEY, "value": "false"}
        assert await visitor.post("/brokers/settings", change, token=token) == (303, "/brokers")
        _, text = await visitor.get("/brokers")
        assert f"{KEY} is changed." in text
        assert "in its file: true" in text
        (broker,) = await admin.brokers()
        assert (await admin.broker_config(broker.address))[KEY] == "false"
        for wrong in ({"value": "maybe"}, {"key": "nothing"}, {"key": "listenPort"}):
            await visitor.post("/brokers/settings", change | wrong, token=token)
        await visitor.post("/brokers/settings", change | {"broker": "other"}, token=token)
        _, text = await visitor.get("/audit")
    assert text.count('class="bad"') == 4
    assert text.count("set longPollingEnable of broker-a to") == 2


async def test_accounts_are_created_changed_and_deleted(tmp_path: Path) -> None:
    settings = {"aclEnable": "true", "aclFile": str(accounts_file(tmp_path))}
    new = {"new": "1", "key": "shop-account", "secret": "shop-secret", "trusted": ""}
    rights = {"topic_right": "DENY", "group_right": "SUB", "topics": "orders=PUB", "groups": ""}
    options: AdminOptions = {"credentials": Credentials(*ADMIN)}
    async with (
        Cluster(settings=settings) as cluster,
        AsyncAdmin(cluster.name_server, credentials=Credentials(*ADMIN)) as admin,
        dashboard(cluster.name_server, allows_changes=True, options=options) as visitor,
    ):
        (broker,) = await admin.brokers(with_state=False)
        token = await visitor.token("/brokers")
        done = await visitor.post("/accounts", new | rights, token=token)
        assert done == (303, "/accounts/shop-account")
        found = (await admin.broker_accounts(broker.address)).accounts["shop-account"]
        assert (found.group_right, found.topic_rights) == ("SUB", {"orders": "PUB"})
        _, text = await visitor.get("/accounts/shop-account")
        assert "orders=PUB" in text
        assert "shop-secret" not in text

        again = await visitor.post("/accounts", new | rights, token=token)
        assert again == (303, "/brokers")
        assert "exists already" in (await visitor.get("/brokers"))[1]
        wider = new | rights | {"new": "", "secret": "", "topics": "orders=PUB|SUB"}
        await visitor.post("/accounts", wider, token=token)
        found = (await admin.broker_accounts(broker.address)).accounts["shop-account"]
        assert found.topic_rights == {"orders": "PUB|SUB"}

        place = "/accounts/shop-account/delete"
        await visitor.post(place, {"confirm": "other"}, token=token)
        assert "shop-account" in (await admin.broker_accounts(broker.address)).accounts
        assert await visitor.post(place, {"confirm": "shop-account"}, token=token) == (
            *(303, "/brokers"),
        )
        assert "shop-account" not in (await admin.broker_accounts(broker.address)).accounts
        assert (await visitor.get("/accounts/shop-account"))[0] == 400
