"""Names and delays of the Kombu transport."""

from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.push.outcome import LEVELS_S
from roquet.kombu.mapping import (
    DELAY_MAX,
    NAME_SIZE_MAX,
    binding_of,
    delay_until,
    due_of,
    exchange_topic,
    level_within,
    queue_topic,
    tag_of,
    tags_of,
)
from roquet.protocol.names import has_name_characters

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_queue_with_the_characters_of_a_topic_keeps_its_name() -> None:
    assert queue_topic("celery") == "celery"
    assert queue_topic("orders-new_1", "shop-") == "shop-orders-new_1"


@pytest.mark.parametrize("queue", ["images.big", "a b", "ümlaut", "%", "x" * 300, "celery@host"])
def test_any_queue_has_a_valid_topic(queue: str) -> None:
    topic = queue_topic(queue)
    assert has_name_characters(topic)
    assert len(topic) <= NAME_SIZE_MAX


def test_queues_that_differ_in_one_character_have_different_topics() -> None:
    names = ["a.b", "a_b", "a-b", "a b", "x" * 200 + "1", "x" * 200 + "2"]
    assert len({queue_topic(name) for name in names}) == len(names)


def test_an_exchange_is_not_the_queue_of_its_name() -> None:
    assert exchange_topic("celery") == "kombu-exchange-celery"
    assert exchange_topic("", "shop-") == "shop-kombu-exchange"


def test_a_routing_key_that_is_no_tag_becomes_a_digest() -> None:
    assert tag_of("images.resize") == "images.resize"
    for key in ("", "*", "a || b", "x" * 101):
        assert tag_of(key).startswith("key-")


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("images.#", ["images", "images.a", "images.a.b"], ["image", "imagesx", "x.images"]),
        ("#.error", ["error", "a.error", "a.b.error"], ["errors", "aerror"]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.b.c"]),
        ("#", ["", "a", "a.b"], []),
        ("*", ["a"], ["a.b"]),
        ("a+b.*", ["a+b.c"], ["aab.c"]),
    ],
)
def test_a_topic_exchange_compares_words(pattern: str, taken: list[str], left: list[str]) -> None:
    binding = binding_of("topic", "t", pattern)
    assert [key for key in (*taken, *left) if binding.takes(None, key)] == taken


def test_brokers_compare_tags_unless_a_pattern_needs_all_messages() -> None:
    exact = binding_of("topic", "t", "a.b")
    assert tags_of([exact, binding_of("direct", "t", "c")]) == "a.b || c"
    assert tags_of([exact, binding_of("topic", "t", "a.#")]) is None
    assert tags_of([binding_of("fanout", "t", "whatever")]) is None
    assert exact.takes("a.b", "")
    assert not exact.takes("c", "a.b")


def test_an_exchange_of_headers_is_refused() -> None:
    with pytest.raises(ValueError, match="'headers' is not supported: use direct, topic or fanout"):
        binding_of("headers", "t", "")


@pytest.mark.parametrize(
    ("eta", "due"),
    [
        ("2026-01-01T00:00:00+00:00", NOW),
        ("2026-01-01T00:00:00", NOW),
        ("2026-01-01T01:00:00+01:00", NOW),
        ("tomorrow", None),
        (5, None),
        (None, None),
    ],
)
def test_a_task_is_due_at_its_eta(eta: object, due: datetime | None) -> None:
    assert due_of({"headers": {"eta": eta}}) == due


def test_a_message_without_headers_is_due_at_once() -> None:
    assert due_of({"headers": None}) is None
    assert due_of({}) is None


def test_a_broker_delays_what_is_not_due_within_a_second() -> None:
    assert delay_until(None, NOW) is None
    assert delay_until(NOW + timedelta(seconds=0.9), NOW) is None
    assert delay_until(NOW - timedelta(days=1), NOW) is None
    assert delay_until(NOW + timedelta(minutes=7), NOW) == timedelta(minutes=7)
    assert delay_until(NOW + timedelta(days=30), NOW) == DELAY_MAX


@pytest.mark.parametrize("seconds", [1, 4.9, 5, 29, 30, 3599, 7200, 200_000])
def test_a_level_never_waits_for_too_long(seconds: float) -> None:
    level = level_within(timedelta(seconds=seconds))
    assert LEVELS_S[level - 1] <= seconds
    assert level == len(LEVELS_S) or LEVELS_S[level] > seconds
