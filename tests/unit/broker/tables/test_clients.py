"""Who is connected. Connections are texts here: any hashable thing will do."""

import pytest

from roquet.broker.errors import BadClientName, TooManyGroups
from roquet.broker.tables import clients
from roquet.broker.tables.clients import (
    SILENCE_S_MAX,
    Client,
    Consumers,
    Producers,
    subscription_cost,
)
from roquet.net.errors import TableFull
from roquet.protocol.bodies.clients import ConsumerData, SubscriptionData
from tests.support.raising import raises


def client(client_id: str, seen_s: float = 0.0) -> Client:
    return Client(client_id, "10.0.0.7:50000", "JAVA", 409, seen_ms=0, seen_s=seen_s)


def data(group: str, **versions: int) -> ConsumerData:
    """What a consumer of these topics says; the numbers are versions of subscriptions."""
    return ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=[
            SubscriptionData(topic=topic, sub_string=f"tag{version}", sub_version=version)
            for topic, version in versions.items()
        ],
    )


# --- consumers ---


def test_members_are_notified_of_newcomers_and_of_topics_that_come_or_go() -> None:
    consumers = Consumers[str]()
    assert consumers.register("c1", client("a"), data("g", orders=1))
    assert not consumers.register("c1", client("a"), data("g", orders=1))
    assert consumers.register("c2", client("b"), data("g", orders=1))
    assert not consumers.register("c2", client("b"), data("g", orders=2))
    assert consumers.register("c1", client("a"), data("g", orders=2, bills=1))
    assert consumers.register("c1", client("a"), data("g", bills=1))


def test_a_connection_that_becomes_another_client_is_a_newcomer() -> None:
    consumers = Consumers[str]()
    consumers.register("c1", client("a"), data("g"))
    assert consumers.register("c1", client("b"), data("g"))
    group = consumers.find("g")
    assert group is not None
    assert group.client_ids == ["b"]


def test_only_a_newer_subscription_replaces_a_known_one() -> None:
    consumers = Consumers[str]()
    consumers.register("c1", client("a"), data("g", orders=5, bills=5))
    consumers.register("c2", client("b"), data("g", orders=4, bills=6))
    group = consumers.find("g")
    assert group is not None
    assert {topic: sub.sub_string for topic, sub in group.subscriptions.items()} == {
        "orders": "tag5",
        "bills": "tag6",
    }


def test_of_two_subscriptions_of_one_version_the_first_stays() -> None:
    consumers = Consumers[str]()
    first = SubscriptionData(topic="orders", sub_string="first", sub_version=1)
    second = SubscriptionData(topic="orders", sub_string="second", sub_version=1)
    for subscription in (first, second):
        consumers.register(
            "c1",
            client("a"),
            ConsumerData(group_name="g", subscription_data_set=[subscription]),
        )
    group = consumers.find("g")
    assert group is not None
    assert group.subscriptions == {"orders": first}


def test_a_topic_that_the_last_heartbeat_did_not_name_is_not_read_any_more() -> None:
    consumers = Consumers[str]()
    consumers.register("c1", client("a"), data("g", orders=1, bills=1))
    consumers.register("c2", client("b"), data("g", bills=1))
    consumers.register("c3", client("c"), data("h", bills=1))
    assert consumers.groups_of("orders") == []
    assert consumers.groups_of("bills") == ["g", "h"]


def test_a_heartbeat_in_the_same_words_counts_again_after_another_one() -> None:
    consumers = Consumers[str]()
    consumers.register("c1", client("a"), data("g", orders=1))
    consumers.register("c2", client("b"), data("g", bills=1))
    assert consumers.register("c1", client("a"), data("g", orders=1))
    assert consumers.groups_of("orders") == ["g"]
    assert consumers.groups_of("bills") == []


def test_the_last_heartbeat_says_how_the_group_consumes() -> None:
    consumers = Consumers[str]()
    consumers.register("c1", client("a"), data("g"))
    other = ConsumerData(
        group_name="g", consume_type="CONSUME_ACTIVELY", message_model="BROADCASTING"
    )
    consumers.register("c2", client("b"), other)
    group = consumers.find("g")
    assert group is not None
    assert (group.name, group.consume_type, group.message_model, group.consume_from_where) == (
        "g",
        "CONSUME_ACTIVELY",
        "BROADCASTING",
        None,
    )


def test_a_client_with_two_connections_is_one_consumer() -> None:
    consumers = Consumers[str]()
    for connection, client_id in (("old", "a"), ("c2", "b"), ("new", "a")):
        consumers.register(connection, client(client_id), data("g"))
    group = consumers.find("g")
    assert group is not None
    assert group.client_ids == ["a", "b"]
    assert group.connection_of("a") == "new"
    assert group.connection_of("missing") is None
    assert list(group.members) == ["old", "c2", "new"]


def test_a_consumer_leaves_one_group_or_all_of_them() -> None:
    consumers = Consumers[str]()
    for name in ("g", "h", "i"):
        consumers.register("c1", client("a"), data(name))
    consumers.register("c2", client("b"), data("g"))
    assert consumers.unregister("i", "c1")
    assert not consumers.unregister("i", "c1")
    assert not consumers.unregister("missing", "c1")
    assert sorted(consumers.forget("c1")) == ["g", "h"]
    assert consumers.forget("c1") == []
    assert (consumers.find("h"), consumers.find("i")) == (None, None)
    group = consumers.find("g")
    assert group is not None
    assert list(group.members) == ["c2"]


def test_a_group_that_was_empty_starts_again() -> None:
    consumers = Consumers[str]()
    consumers.register("c1", client("a"), data("g", orders=9))
    consumers.forget("c1")
    assert consumers.find("g") is None
    assert consumers.register("c2", client("b"), data("g", orders=1))
    group = consumers.find("g")
    assert group is not None
    assert group.subscriptions["orders"].sub_version == 1
    assert list(group.members) == ["c2"]


def test_consumers_that_fall_silent_are_forgotten() -> None:
    consumers = Consumers[str]()
    consumers.register("c1", client("a", seen_s=0), data("g"))
    consumers.register("c1", client("a", seen_s=0), data("h"))
    consumers.register("c2", client("b", seen_s=1), data("g"))
    assert consumers.forget_silent(SILENCE_S_MAX) == ([], [])
    consumers.register("c1", client("a", seen_s=9), data("h"))
    assert consumers.forget_silent(SILENCE_S_MAX + 0.5) == (["g"], ["c1"])
    assert consumers.forget_silent(SILENCE_S_MAX + 10) == (["g", "h"], ["c2", "c1"])
    assert consumers.find("g") is None


# --- producers ---


def test_a_producer_is_found_by_its_id_where_it_was_seen_last() -> None:
    producers = Producers[str]()
    producers.register("g", "old", client("a"))
    producers.register("g", "new", client("a"))
    assert producers.connection_of("a") == "new"
    producers.forget("old")
    assert producers.connection_of("a") == "new"
    producers.forget("new")
    assert producers.connection_of("a") is None


def test_the_connections_of_a_producer_may_be_lost_in_any_order() -> None:
    producers = Producers[str]()
    producers.register("g", "old", client("a"))
    producers.register("g", "new", client("a"))
    producers.forget("new")
    producers.forget("old")
    assert producers.connection_of("a") is None
    assert producers.groups() == []


def test_a_producer_of_several_groups_is_found_until_it_left_the_last() -> None:
    producers = Producers[str]()
    producers.register("g", "c1", client("a"))
    producers.register("h", "c1", client("a"))
    producers.unregister("g", "c1")
    assert producers.connection_of("a") == "c1"
    producers.unregister("h", "c1")
    assert producers.connection_of("a") is None
    assert producers.groups() == []


def test_an_id_that_a_connection_gave_up_is_not_found() -> None:
    producers = Producers[str]()
    producers.register("g", "c1", client("a"))
    producers.register("g", "c1", client("b"))
    assert producers.connection_of("a") is None
    assert producers.connection_of("b") == "c1"


def test_the_producers_of_a_group_take_turns() -> None:
    producers = Producers[str]()
    for connection in ("c1", "c2", "c3"):
        producers.register("g", connection, client(connection))
    turns = [producers.next_of("g") for _ in range(6)]
    assert sorted(map(str, turns[:3])) == ["c1", "c2", "c3"]
    assert turns[3:] == turns[:3]
    assert producers.next_of("missing") is None


def test_producers_that_fall_silent_are_forgotten() -> None:
    producers = Producers[str]()
    producers.register("g", "c1", client("a", seen_s=0))
    producers.register("g", "c2", client("b", seen_s=60))
    assert producers.forget_silent(SILENCE_S_MAX + 1) == (["g"], ["c1"])
    assert producers.members("g") == {"c2": client("b", seen_s=60)}
    assert producers.connection_of("a") is None


def test_one_connection_can_be_in_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "GROUP_COUNT_MAX", 2)
    producers = Producers[str]()
    producers.register("g", "c1", client("a"))
    producers.register("h", "c1", client("a"))
    producers.register("h", "c1", client("a"))
    with pytest.raises(TooManyGroups):
        producers.register("i", "c1", client("a"))
    producers.register("i", "c2", client("b"))
    assert producers.groups() == ["g", "h", "i"]


# --- bounds ---


def test_memberships_have_a_bound() -> None:
    producers = Producers[str](2)
    producers.register("g", "c1", client("a"))
    producers.register("h", "c1", client("a"))
    with raises(TableFull, limit=2, setting="maxMemberships"):
        producers.register("g", "c2", client("b"))
    producers.register("g", "c1", client("a"))
    producers.forget("c1")
    producers.register("g", "c2", client("b"))


def test_a_group_of_producers_has_a_name_with_an_end() -> None:
    with raises(BadClientName, limit=512):
        Producers[str]().register("g" * 513, "c1", client("a"))


def test_subscriptions_have_a_bound_and_make_room_when_they_go() -> None:
    consumers = Consumers[str](subscription_size_max=1_200)
    consumers.register("c1", client("a"), data("g", orders=1))
    consumers.register("c1", client("a"), data("g", orders=1, bills=1))
    with raises(TableFull, limit=1_200, setting="maxSubscriptionBytes"):
        consumers.register("c2", client("b"), data("h", orders=1))
    assert consumers.find("h") is None
    assert consumers.groups() == ["g"]
    # The same again is nothing more.
    consumers.register("c3", client("c"), data("g", orders=1, bills=1))
    consumers.forget("c1")
    consumers.forget("c3")
    assert consumers.subscription_size == 0
    consumers.register("c2", client("b"), data("h", orders=1))


def test_a_subscription_costs_what_its_tags_and_expression_take() -> None:
    few = SubscriptionData(topic="t", sub_string="a")
    many = SubscriptionData(
        topic="t", sub_string="x" * 1000, tags_set=["a"] * 10, code_set=[1] * 10
    )
    assert subscription_cost([many]) - subscription_cost([few]) > 2900
