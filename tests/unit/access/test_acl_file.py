"""Files of accounts: what they may say, and what is wrong with them."""

from pathlib import Path

import pytest

from roquet.access.accounts import AccessRules, Account
from roquet.access.acl_file import read_document, rules_of, write_document
from roquet.access.errors import BadRules
from roquet.protocol.acl import EITHER, Right
from tests.support.accounts import ACCOUNTS
from tests.support.raising import raises

PATH = Path("plain_acl.yml")
# As it is in Apache's own distribution.
APACHES = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""


def rules(text: str) -> AccessRules:
    return rules_of({PATH: read_document(text.encode())})


def only(text: str) -> Account:
    (account,) = rules(f"accounts: [{text}]").accounts.values()
    return account


def test_apaches_own_example_means_the_same() -> None:
    found = rules(APACHES)
    plain, admin = found.accounts["RocketMQ"], found.accounts["rocketmq2"]
    assert found.trusts("10.10.103.5")
    assert plain.secret_key == "12345678"
    assert (plain.topic_right, plain.group_right) == (Right.DENY, Right.SUB)
    assert plain.rights == {
        "topicA": Right.DENY,
        "topicB": EITHER,
        "topicC": Right.SUB,
        "%RETRY%groupA": Right.DENY,
        "%RETRY%groupB": EITHER,
    }
    assert not plain.is_admin
    assert admin.is_admin
    assert admin.trusted_addresses.include("192.168.1.7")
    assert not plain.trusted_addresses.include("192.168.1.7")


def test_texts_stay_as_they_are_written() -> None:
    assert only("{accessKey: 0123456789, secretKey: 01234567}").secret_key == "01234567"
    assert only("{accessKey: yes-or-no, secretKey: '1e10000'}").secret_key == "1e10000"


@pytest.mark.parametrize("text", [ACCOUNTS, APACHES, "", "accounts:\n", "accounts: []\n"])
def test_what_is_written_is_read_again(text: str) -> None:
    document = read_document(text.encode())
    assert read_document(write_document(document)) == document


def test_an_access_key_is_in_one_file_only() -> None:
    document = read_document(ACCOUNTS.encode())
    with raises(BadRules, path=Path("b.yml")):
        rules_of({Path("a.yml"): document, Path("b.yml"): document})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("accounts: [", "line 1 is not YAML"),
        ("acounts: []", "unknown field `acounts`"),
        ("accounts: {}", "Expected `array"),
        ("accounts: [{accessKey: abcdefgh}]", "need 7 characters or more"),
        ("accounts: [{accessKey: short, secretKey: abcdefgh}]", "need 7 characters or more"),
        ("accounts: [{accessKey: abcdefgh, secretKey: abcdefgh, admn: true}]", "`admn`"),
        ("accounts: [{accessKey: abcdefgh, secretKey: abcdefgh, admin: maybe}]", "admin"),
        (
            "accounts: [{accessKey: abcdefgh, secretKey: abcdefgh, topicPerms: [orders]}]",
            "'orders' is not of the form NAME=RIGHT",
        ),
        (
            "accounts: [{accessKey: abcdefgh, secretKey: abcdefgh, groupPerms: [a=READ]}]",
            "'READ' is not a right",
        ),
        (
            "accounts: [{accessKey: abcdefgh, secretKey: abcdefgh, whiteRemoteAddress: here}]",
            "'here' is neither an address",
        ),
        ("globalWhiteRemoteAddresses: [10.0.0]", "'10.0.0' is neither an address"),
        ("!!python/object/apply:os.getcwd []", "line 1 is not YAML"),
        ("just a text", "Expected `object`"),
    ],
)
def test_a_mistake_is_named(text: str, reason: str) -> None:
    with pytest.raises(BadRules) as caught:
        rules(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\xfa", b"a: \x00", b"[" * 100_000, b"- &a [*a]\n"])
def test_what_is_no_file_of_accounts_is_refused(content: bytes) -> None:
    with pytest.raises(BadRules):
        read_document(content)


def test_no_error_quotes_a_secret() -> None:
    text = "accounts:\n- accessKey: abcdefgh\n  secretKey: hidden-word\n  admin: [\n"
    for broken in (
        text,
        text.replace("admin: [", "admin: what"),
        text.replace("hidden", "*hidden"),
    ):
        with pytest.raises(BadRules) as caught:
            rules(broken)
        assert "hidden-word" not in str(caught.value)
