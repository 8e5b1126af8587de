"""What a pull wants to see."""

from pathlib import Path
from typing import Any

import pytest

from roquet.broker.errors import (
    BroadcastForbidden,
    FilterMissing,
    FiltersOff,
    NotSubscribed,
    SubscriptionOutdated,
    SubscriptionUnreadable,
)
from roquet.broker.messages.subscriptions import (
    EVERYTHING,
    Filter,
    check_subscription,
    filter_of_pull,
)
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.clients import ConsumerGroup
from roquet.protocol.bodies.clients import ConsumerData, MessageModel, SubscriptionData
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import PullFlag, ResponseCode
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.java_hash import java_hash
from roquet.protocol.subscription import EXPRESSION_SIZE_MAX
from roquet.store.config import StoreConfig
from tests.support.drafts import draft
from tests.support.records import record_of

STORE = StoreConfig(root=Path("unused"))
SQL_ON = BrokerConfig(store=STORE, sql_filters=True)
SQL_OFF = BrokerConfig(store=STORE)
SETTINGS = GroupConfig(group_name="g")
OUT_OF_BOUNDS = "x" * (EXPRESSION_SIZE_MAX + 1)


def pull(
    topic: str = "orders", flag: int = 0, version: int = 0, **fields: Any
) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group="g",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=flag,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=version,
        **fields,
    )


def own(expression: str | None, expression_type: str | None = None) -> PullMessageHeader:
    return pull(
        flag=PullFlag.SUBSCRIPTION, subscription=expression, expression_type=expression_type
    )


def subscribed(
    *subscriptions: SubscriptionData, model: str = MessageModel.CLUSTERING
) -> ConsumerGroup[str]:
    group = ConsumerGroup[str]("g", {})
    group.take(
        ConsumerData(group_name="g", message_model=model, subscription_data_set=list(subscriptions))
    )
    return group


def to_orders(expression: str | None, kind: str = "TAG", version: int = 0) -> SubscriptionData:
    return SubscriptionData(
        topic="orders", sub_string=expression, expression_type=kind, sub_version=version
    )


def passes(found: Filter, **properties: str) -> bool:
    """As the store asks: the code of the tag first, then the record."""
    code = java_hash(properties["TAGS"]) if "TAGS" in properties else 0
    if found.matches_code is not None and not found.matches_code(code):
        return False
    record = record_of(draft(b"body", properties=properties))
    return found.matches_record is None or found.matches_record(record)


# --- a pull with its own subscription ---


@pytest.mark.parametrize("expression", [None, "", "*"])
@pytest.mark.parametrize("kind", [None, "", "TAG"])
def test_everything_is_everything(expression: str | None, kind: str | None) -> None:
    assert filter_of_pull(own(expression, kind), None, SETTINGS, SQL_OFF) is EVERYTHING
    assert passes(EVERYTHING, TAGS="any")


def test_tags_are_compared_by_code() -> None:
    found = filter_of_pull(own("red || blue"), None, SETTINGS, SQL_OFF)
    assert found.matches_record is None
    assert passes(found, TAGS="red")
    assert passes(found, TAGS="blue")
    assert not passes(found, TAGS="green")
    assert not passes(found)


def test_sql_is_asked_of_the_properties() -> None:
    found = filter_of_pull(own("price > 3 AND TAGS = 'red'", "SQL92"), None, SETTINGS, SQL_ON)
    assert found.matches_code is None
    assert passes(found, price="4", TAGS="red")
    assert not passes(found, price="3", TAGS="red")
    assert not passes(found)


def test_a_filter_is_made_once() -> None:
    for header, config in ((own("once"), SQL_OFF), (own("once = 1", "SQL92"), SQL_ON)):
        made = filter_of_pull(header, None, SETTINGS, config)
        assert filter_of_pull(header, None, SETTINGS, config) is made


@pytest.mark.parametrize("expression", ["price >", "a > 'x'", "a = 1 AND (" + "b" * 20_000])
def test_sql_that_does_not_compile_hides_nothing(expression: str) -> None:
    assert filter_of_pull(own(expression, "SQL92"), None, SETTINGS, SQL_ON) is EVERYTHING


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("||", "TAG"),
        (OUT_OF_BOUNDS, "TAG"),
        ("", "SQL92"),
        (OUT_OF_BOUNDS, "SQL92"),
        ("a", "XPATH"),
    ],
)
def test_what_is_no_subscription_is_refused(expression: str, kind: str) -> None:
    with pytest.raises(SubscriptionUnreadable) as caught:
        filter_of_pull(own(expression, kind), None, SETTINGS, SQL_OFF)
    assert caught.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_sql_can_be_off() -> None:
    with pytest.raises(FiltersOff) as caught:
        filter_of_pull(own("a = 1", "SQL92"), None, SETTINGS, SQL_OFF)
    assert caught.value.code is ResponseCode.SYSTEM_ERROR
    with pytest.raises(FiltersOff):
        filter_of_pull(pull(), subscribed(to_orders("a = 1", "SQL92")), SETTINGS, SQL_OFF)


# --- a pull that relies on heartbeats ---


def test_the_subscription_of_the_group_counts() -> None:
    found = filter_of_pull(pull(), subscribed(to_orders("red")), SETTINGS, SQL_OFF)
    assert passes(found, TAGS="red")
    assert not passes(found, TAGS="blue")
    found = filter_of_pull(pull(), subscribed(to_orders("a = 1", "SQL92")), SETTINGS, SQL_ON)
    assert passes(found, a="1")
    assert not passes(found, a="2")


@pytest.mark.parametrize("group", [None, subscribed()])
def test_a_client_that_has_not_subscribed_gets_nothing(group: ConsumerGroup[str] | None) -> None:
    with pytest.raises(NotSubscribed) as caught:
        filter_of_pull(pull(), group, SETTINGS, SQL_ON)
    assert caught.value.code is ResponseCode.SUBSCRIPTION_NOT_EXIST


def test_a_pull_waits_for_the_heartbeat_that_brings_its_subscription() -> None:
    group = subscribed(to_orders("*", version=5))
    assert filter_of_pull(pull(version=5), group, SETTINGS, SQL_ON) is EVERYTHING
    with pytest.raises(SubscriptionOutdated) as caught:
        filter_of_pull(pull(version=6), group, SETTINGS, SQL_ON)
    assert caught.value.code is ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_broadcasting_can_be_forbidden() -> None:
    group = subscribed(to_orders("*"), model=MessageModel.BROADCASTING)
    assert filter_of_pull(pull(), group, SETTINGS, SQL_ON) is EVERYTHING
    closed = GroupConfig(group_name="g", consume_broadcast_enable=False)
    assert filter_of_pull(pull(), subscribed(to_orders("*")), closed, SQL_ON) is EVERYTHING
    with pytest.raises(BroadcastForbidden) as caught:
        filter_of_pull(pull(), group, closed, SQL_ON)
    assert caught.value.code is ResponseCode.NO_PERMISSION


def test_sql_of_a_heartbeat_that_does_not_compile_is_no_filter() -> None:
    with pytest.raises(FilterMissing) as caught:
        filter_of_pull(pull(), subscribed(to_orders("a >", "SQL92")), SETTINGS, SQL_ON)
    assert caught.value.code is ResponseCode.FILTER_DATA_NOT_EXIST


# --- messages that are tried again ---


def test_a_retry_may_have_to_pass_the_filter_of_its_topic() -> None:
    config = BrokerConfig(store=STORE, sql_filters=True, sql_filters_for_retries=True)
    group = subscribed(
        SubscriptionData(topic="%RETRY%g", sub_string="*"),
        to_orders("a = 1", "SQL92"),
        SubscriptionData(topic="bills", sub_string="red"),
        SubscriptionData(topic="broken", sub_string="a >", expression_type="SQL92"),
    )
    found = filter_of_pull(pull("%RETRY%g"), group, SETTINGS, config)
    assert passes(found, RETRY_TOPIC="orders", a="1")
    assert not passes(found, RETRY_TOPIC="orders", a="2")
    assert passes(found, RETRY_TOPIC="bills", TAGS="blue")
    assert passes(found, RETRY_TOPIC="broken", a="2")
    assert passes(found, RETRY_TOPIC="unknown", a="2")
    assert passes(found, a="2")
    assert filter_of_pull(pull("%RETRY%g"), group, SETTINGS, SQL_ON) is EVERYTHING


# --- before a consumer starts ---


def test_a_subscription_is_checked_before_a_consumer_starts() -> None:
    check_subscription(to_orders("a = 1", "SQL92"), SQL_ON)
    check_subscription(to_orders("||"), SQL_OFF)  # Tags are not looked at, as in Apache.
    with pytest.raises(FiltersOff):
        check_subscription(to_orders("a = 1", "SQL92"), SQL_OFF)
    for expression, kind in (("a >", "SQL92"), ("", "SQL92"), (None, "SQL92"), ("a", "XPATH")):
        with pytest.raises(SubscriptionUnreadable):
            check_subscription(to_orders(expression, kind), SQL_ON)
