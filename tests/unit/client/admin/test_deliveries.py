"""What became of a message in a group: decided from what brokers say."""

from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.admin.deliveries import (
    DeliveryFacts,
    DeliveryState,
    GroupDelivery,
    RetryCopy,
    delay_levels,
    delivery_of,
    is_excluded,
    newest_retry,
)
from roquet.client.received import received_of
from roquet.protocol.bodies.clients import SubscriptionData
from roquet.protocol.messages.properties import properties_text
from tests.support.records import PLAIN_DRAFT, changed, record_of

DUE = datetime(2026, 11, 18, tzinfo=UTC)
STATE = DeliveryState


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (DeliveryFacts(5, committed=6), STATE.CONSUMED),
        (DeliveryFacts(5, committed=5), STATE.WAITING),
        (DeliveryFacts(5, committed=0), STATE.WAITING),
        (DeliveryFacts(5, committed=6, is_excluded=True), STATE.FILTERED),
        (DeliveryFacts(5, committed=5, is_excluded=True), STATE.FILTERED),
        (DeliveryFacts(5, start=6), STATE.BEFORE_START),
        (DeliveryFacts(5, start=5), STATE.WAITING),
        (DeliveryFacts(5), STATE.UNKNOWN),
        (DeliveryFacts(5, committed=6, is_broadcast=True), STATE.UNKNOWN),
        # The offset is past every message that is retried.
        (DeliveryFacts(5, committed=6, retry=RetryCopy(1, DUE)), STATE.WAITS_FOR_RETRY),
        (DeliveryFacts(5, committed=6, retry=RetryCopy(1, None)), STATE.WAITS_FOR_RETRY),
        (DeliveryFacts(5, committed=6, retry=RetryCopy(1, None, is_taken=True)), STATE.CONSUMED),
        (DeliveryFacts(5, committed=6, dead_tries=17), STATE.DEAD_LETTER),
        (DeliveryFacts(5, committed=6, retry=RetryCopy(1, DUE), dead_tries=2), STATE.DEAD_LETTER),
        # A broker that does not answer may have its retries, but not its offset.
        (DeliveryFacts(5, committed=6, not_asked=("b",)), STATE.BROKER_NOT_ASKED),
        (DeliveryFacts(5, committed=5, not_asked=("b",)), STATE.WAITING),
        (DeliveryFacts(5, committed=6, dead_tries=2, not_asked=("b",)), STATE.DEAD_LETTER),
        (DeliveryFacts(5, not_asked=("a",), is_its_broker_asked=False), STATE.BROKER_NOT_ASKED),
    ],
)
def test_facts_decide(facts: DeliveryFacts, state: DeliveryState) -> None:
    assert delivery_of("billing", facts).state is state


def test_a_retry_is_reported_with_its_number_and_time() -> None:
    facts = DeliveryFacts(5, committed=6, retry=RetryCopy(3, DUE))
    assert delivery_of("billing", facts) == GroupDelivery(
        "billing", STATE.WAITS_FOR_RETRY, retry=3, until=DUE
    )


@pytest.mark.parametrize(("resent_as", "text"), [(None, "not resent"), ("ID", "resent as ID")])
def test_a_dead_letter_is_reported_with_its_resend(resent_as: str | None, text: str) -> None:
    facts = DeliveryFacts(5, committed=6, dead_tries=17, resent_as=resent_as)
    note = f"after 17 tries, {text}; see: roquet dlq show billing"
    assert delivery_of("billing", facts).note == note


@pytest.mark.parametrize(
    ("copies", "newest"),
    [
        ([], None),
        ([RetryCopy(1, DUE), RetryCopy(2, DUE)], RetryCopy(2, DUE)),
        # What was delivered is still to be found in the delay topic.
        ([RetryCopy(1, None), RetryCopy(1, DUE)], RetryCopy(1, None)),
        ([RetryCopy(1, None, is_taken=True), RetryCopy(2, DUE)], RetryCopy(2, DUE)),
    ],
)
def test_the_newest_retry_counts(copies: list[RetryCopy], newest: RetryCopy | None) -> None:
    assert newest_retry(copies) == newest


@pytest.mark.parametrize(
    ("kind", "expression", "excluded"),
    [
        ("TAG", "*", False),
        ("TAG", "new || old", False),
        ("TAG", "old", True),
        ("SQL92", "city = 'Rome'", False),
        ("SQL92", "city = 'Bonn'", True),
        # Brokers do not evaluate these either.
        ("SQL92", "city =", False),
        ("XPATH", "//city", False),
    ],
)
def test_subscriptions_exclude_messages(kind: str, expression: str, *, excluded: bool) -> None:
    properties = properties_text({"TAGS": "new", "city": "Rome"}).encode()
    message = received_of(record_of(changed(PLAIN_DRAFT, properties=properties)), "broker-a")
    wanted = SubscriptionData(topic="orders", sub_string=expression, expression_type=kind)
    assert is_excluded(wanted, message) is excluded


def test_delays_are_those_of_the_setting() -> None:
    assert delay_levels("1s 5m 2h 1d") == [
        timedelta(seconds=1),
        timedelta(minutes=5),
        timedelta(hours=2),
        timedelta(days=1),
    ]
