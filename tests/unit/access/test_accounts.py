"""What an account may do."""

import pytest

from roquet.access.accounts import (
    ALL_TOPICS,
    AccessRules,
    Account,
    OwnAccount,
    lacking,
    read_own_account,
    request_of,
)
from roquet.access.addresses import read_addresses
from roquet.net.router import Need
from roquet.protocol.acl import EITHER, Right, has_valid_signature
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.name_server import GetRouteHeader
from roquet.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TRACE_TOPIC

SECRET = "do not show it"


def account(**members: object) -> Account:
    return Account(access_key="somebody", secret_key=SECRET, **members)  # type: ignore[arg-type]


def may(owner: Account, topic: str, right: Right) -> bool:
    return lacking(owner, [Need(topic, right)]) is None


def test_without_any_word_everything_is_denied() -> None:
    nobody = account()
    assert lacking(nobody, []) is None
    assert not may(nobody, "orders", EITHER)
    assert not may(nobody, "%RETRY%billing", Right.SUB)


def test_settings_of_a_topic_override_the_default() -> None:
    owner = account(topic_right=EITHER, rights={"orders": Right.SUB, "secrets": Right.DENY})
    assert may(owner, "others", Right.PUB)
    assert may(owner, "orders", Right.SUB)
    assert not may(owner, "orders", Right.PUB)
    assert not may(owner, "secrets", Right.SUB)


def test_groups_have_a_default_of_their_own() -> None:
    owner = account(group_right=Right.SUB, rights={"%RETRY%billing": Right.DENY})
    assert may(owner, "%RETRY%shop", Right.SUB)
    assert not may(owner, "%RETRY%billing", Right.SUB)
    assert not may(owner, "orders", Right.SUB)


def test_the_first_need_that_is_not_met_is_named() -> None:
    owner = account(rights={"orders": Right.SUB})
    needs = [Need("orders", Right.SUB), Need("a", Right.SUB), Need("b", Right.SUB)]
    assert lacking(owner, needs) == Need("a", Right.SUB)


def test_an_administrator_may_do_everything_unless_it_has_rights_of_its_own() -> None:
    assert may(account(is_admin=True), "orders", Right.PUB)
    limited = account(is_admin=True, rights={"orders": Right.SUB})
    assert may(limited, "orders", Right.SUB)
    assert not may(limited, "orders", Right.PUB)
    assert not may(limited, "others", Right.SUB)


def test_traces_may_be_sent_and_not_read() -> None:
    assert may(account(), TRACE_TOPIC, Right.PUB)
    assert not may(account(), TRACE_TOPIC, Right.SUB)


@pytest.mark.parametrize("topic", [HALF_TOPIC, SCHEDULE_TOPIC])
def test_where_messages_of_all_topics_wait_a_default_is_not_enough(topic: str) -> None:
    assert not may(account(topic_right=EITHER), topic, Right.SUB)
    assert may(account(rights={topic: Right.SUB}), topic, Right.SUB)


def test_to_copy_everything_nothing_may_be_denied() -> None:
    copies = {"topic_right": Right.SUB, "group_right": EITHER}
    assert may(account(**copies), ALL_TOPICS, Right.SUB)
    assert may(account(**copies, rights={"orders": EITHER}), ALL_TOPICS, Right.SUB)
    assert not may(account(**copies, rights={"orders": Right.PUB}), ALL_TOPICS, Right.SUB)
    assert not may(account(topic_right=Right.SUB), ALL_TOPICS, Right.SUB)
    assert may(account(is_admin=True), ALL_TOPICS, Right.SUB)


def test_nothing_shows_a_secret() -> None:
    rules = AccessRules(accounts={"somebody": account()}, decoy_secret=SECRET)
    assert SECRET not in f"{account()!r} {account()} {rules!r} {rules}"


def test_addresses_of_all_texts_are_trusted() -> None:
    rules = AccessRules(trusted_addresses=(read_addresses("10.0.0.1"), read_addresses("10.0.1.*")))
    assert rules.trusts("10.0.0.1")
    assert rules.trusts("10.0.1.9")
    assert not rules.trusts("10.0.2.9")


# --- the own account ---


ACCOUNT = OwnAccount("broker-a", "12345678")


def test_it_is_read_as_apache_writes_it_and_never_shown() -> None:
    text = '{"accessKey":"broker-a","secretKey":"12345678"}'
    assert read_own_account(text) == ACCOUNT
    assert "12345678" not in repr(ACCOUNT)


@pytest.mark.parametrize("text", ["", "broker-a", "{}", '{"accessKey":"a"}', "[1,2]"])
def test_anything_else_is_refused_without_an_explanation(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no credentials$"):
        read_own_account(text)


def test_requests_are_signed_if_there_is_an_account() -> None:
    header = GetRouteHeader(topic="orders")
    plain = request_of(None, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    assert field_texts(plain.fields)["topic"] == "orders"
    assert "Signature" not in field_texts(plain.fields)
    signed = request_of(ACCOUNT, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, b"body")
    fields = field_texts(signed.fields)
    assert has_valid_signature(fields, b"body", signed.version, ACCOUNT.secret_key)
