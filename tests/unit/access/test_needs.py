"""How routes say what they need."""

from typing import Any, cast

import pytest

from roquet.access.accounts import ALL_TOPICS
from roquet.access.needs import (
    ACCOUNT,
    EVERYTHING,
    AnyNeeds,
    any_topic,
    reading,
    sub_group,
    sub_topic,
)
from roquet.net.router import Need, Reply, Request, on
from roquet.protocol.acl import EITHER, Right
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import Header
from roquet.protocol.headers.groups import SubscriptionByConsumerHeader, UnregisterClientHeader

HEADER = SubscriptionByConsumerHeader(group="billing", topic="orders")
TOPIC, GROUP = Need("orders", Right.SUB), Need("%RETRY%billing", Right.SUB)


def found(needs: AnyNeeds, header: Header = HEADER) -> list[Need]:
    request = Request(header, cast("Any", None), cast("Any", None))
    return list(needs.of(None, request))


def test_fields_of_the_header_name_topics_and_groups() -> None:
    assert found(sub_topic("topic")) == [TOPIC]
    assert found(any_topic("topic")) == [Need("orders", EITHER)]
    assert found(sub_group("group")) == [GROUP]
    assert found(reading("topic", "group")) == [TOPIC, GROUP]


def test_a_group_that_is_left_out_needs_nothing() -> None:
    leaving = UnregisterClientHeader(client_id="c", producer_group="shop")
    assert found(sub_group("consumer_group"), leaving) == []


def test_an_account_is_enough_or_nothing_less_than_everything() -> None:
    assert found(ACCOUNT) == []
    assert found(EVERYTHING) == [Need(ALL_TOPICS, Right.SUB)]


def test_a_field_that_the_header_does_not_have_is_found_out_at_once() -> None:
    with pytest.raises(AssertionError, match="consumer_group"):
        on(
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
            SubscriptionByConsumerHeader,
            lambda _server, _request: Reply(),
            needs=sub_group("consumer_group"),
        )
