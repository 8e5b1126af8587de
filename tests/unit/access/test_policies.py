"""Policies: which one decides, what a request wants, and texts that are refused."""

import pytest

from roquet.access.errors import BadRules
from roquet.access.needs import group_need
from roquet.access.policies import (
    Action,
    Decision,
    PolicyRule,
    ResourceKind,
    Wanted,
    deciding,
    read_actions,
    read_networks,
    read_resource,
    wanted_by,
)
from roquet.net.router import Need
from roquet.protocol.acl import EITHER, Right

ORDERS = Wanted(ResourceKind.TOPIC, "orders", frozenset({Action.PUB}))
HERE = "10.0.0.7"


def rule(
    resource: str, decision: Decision = Decision.ALLOW, actions: str = "Pub", *sources: str
) -> PolicyRule:
    return PolicyRule(
        read_resource(resource), read_actions(actions.split()), decision, read_networks(sources)
    )


DENIED = Decision.DENY


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], None),
        ([rule("Topic:bills")], None),
        ([rule("Group:orders")], None),
        ([rule("Topic:orders", actions="Sub Get")], None),
        ([rule("Topic:orders", actions="All")], "Topic:orders"),
        ([rule("Topic:*"), rule("Topic:o*"), rule("*"), rule("Topic:orders")], "Topic:orders"),
        ([rule("Topic:*"), rule("Topic:o*"), rule("*"), rule("Topic:ord*")], "Topic:ord*"),
        ([rule("*"), rule("Topic:*", DENIED)], "Topic:*"),
        ([rule("Topic:orders", Decision.ALLOW, "Pub", "10.0.0.0/24")], "Topic:orders"),
        ([rule("Topic:orders", Decision.ALLOW, "Pub", "10.0.0.7")], "Topic:orders"),
        ([rule("Topic:orders", Decision.ALLOW, "Pub", "10.0.1.0/24", "::1")], None),
    ],
)
def test_the_most_specific_rule_that_matches_decides(
    rules: list[PolicyRule], expected: str | None
) -> None:
    found = deciding(rules, ORDERS, HERE)
    assert (found and str(found.resource)) == expected


def test_of_equals_the_one_that_denies_decides() -> None:
    rules = [rule("Topic:orders"), rule("Topic:orders", DENIED, "All")]
    for some in (rules, rules[::-1]):
        found = deciding(some, ORDERS, HERE)
        assert found is not None
        assert found.decision is DENIED


def test_an_address_of_ipv4_in_the_form_of_ipv6_is_the_same() -> None:
    only_here = rule("Topic:orders", Decision.ALLOW, "Pub", HERE)
    assert deciding([only_here], ORDERS, f"::ffff:{HERE}") is only_here
    assert deciding([only_here], ORDERS, "") is None


def test_a_topic_where_all_messages_wait_needs_its_full_name() -> None:
    closed = Wanted(ResourceKind.TOPIC, "RMQ_SYS_TRANS_HALF_TOPIC", frozenset({Action.SUB}))
    for text in ("*", "Topic:*", "Topic:RMQ*"):
        assert deciding([rule(text, actions="All")], closed, HERE) is None
    assert deciding([rule(f"Topic:{closed.name}", actions="All")], closed, HERE) is not None


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        (Need("orders", Right.PUB), Wanted(ResourceKind.TOPIC, "orders", frozenset({Action.PUB}))),
        (
            Need("orders", EITHER),
            Wanted(ResourceKind.TOPIC, "orders", frozenset({Action.PUB, Action.SUB})),
        ),
        (group_need("billing"), Wanted(ResourceKind.GROUP, "billing", frozenset({Action.SUB}))),
    ],
)
def test_what_a_need_wants(need: Need, expected: Wanted) -> None:
    assert wanted_by(need) == expected


def test_one_further_action_may_be_enough() -> None:
    assert wanted_by(Need("t", Right.SUB), frozenset({Action.GET})).actions == {
        Action.SUB,
        Action.GET,
    }


@pytest.mark.parametrize("text", ["Topic:orders", "Topic:o*", "Topic:*", "Cluster:c", "*"])
def test_a_resource_is_written_as_it_was_read(text: str) -> None:
    assert str(read_resource(text)) == text


def test_letters_may_have_any_case() -> None:
    assert str(read_resource("topic:Orders")) == "Topic:Orders"
    assert read_actions(["PUB", "sub"]) == {Action.PUB, Action.SUB}


@pytest.mark.parametrize("text", ["", "orders", "Topic:", "Nonsense:a", "Topic:a*b", "Topic:a**"])
def test_a_bad_resource_is_refused(text: str) -> None:
    with pytest.raises(BadRules):
        read_resource(text)


def test_bad_actions_and_addresses_are_refused() -> None:
    for actions in ([], None, ["Nonsense"], ["Any"]):
        with pytest.raises(BadRules):
            read_actions(actions)
    with pytest.raises(BadRules):
        read_networks(["10.0.0"])
