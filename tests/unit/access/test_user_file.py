"""The file of users: what is read, what is refused, and what operators change."""

import pytest

from roquet.access.errors import BadRules, UnknownPolicy, UnknownUser
from roquet.access.policies import Action
from roquet.access.user_file import (
    UsersDocument,
    create_user,
    delete_acl,
    delete_user,
    known_acl,
    listed_acls,
    listed_users,
    put_acl,
    read_users,
    update_user,
    user_rules,
    write_users,
)
from roquet.protocol.bodies.brokers import Acl, Policy, PolicyEntry, User
from tests.support.raising import raises

FILE = b"""\
users:
- username: ann
  password: 12345678
- username: root
  password: '0'
  userType: Super
- username: gone
  password: p
  userStatus: disable
acls:
- subject: User:ann
  policies:
  - policyType: Custom
    entries:
    - resource: Topic:orders
      actions: [Pub, Sub]
      sourceIps: [10.0.0.0/8]
      decision: Allow
"""


def acl(resource: str, *actions: str, name: str = "ann", decision: str = "Allow") -> Acl:
    entry = PolicyEntry(resource=resource, actions=list(actions), decision=decision)
    return Acl(subject=f"User:{name}", policies=[Policy(entries=[entry])])


@pytest.fixture
def document() -> UsersDocument:
    return read_users(FILE)


def resources(document: UsersDocument) -> list[str]:
    policies = known_acl(document, "User:ann").policies or []
    return [entry.resource or "" for policy in policies for entry in policy.entries or ()]


def test_a_file_is_read(document: UsersDocument) -> None:
    users = user_rules(document).users
    assert {name: (it.is_super, it.is_enabled, it.password) for name, it in users.items()} == {
        "ann": (False, True, "12345678"),
        "root": (True, True, "0"),
        "gone": (False, False, "p"),
    }
    (rule,) = users["ann"].custom
    assert str(rule.resource) == "Topic:orders"


def test_what_is_written_is_read_again(document: UsersDocument) -> None:
    assert read_users(write_users(document)) == document


@pytest.mark.parametrize(
    "content",
    [
        b"users: [{username: ann}]",
        b"users: [{username: ann, password: a}, {username: ann, password: b}]",
        b"users: [{username: ann, password: a, userType: Nonsense}]",
        b"users: [{username: ann, password: a, status: disable}]",
        b"acls: [{subject: ann}]",
        b"acls: [{subject: 'User:a', polices: []}]",
        FILE.replace(b"sourceIps", b"sourceIp"),
        FILE.replace(b"10.0.0.0/8", b"10.0.0"),
        FILE.replace(b"Allow", b"allowed"),
        b"{",
    ],
)
def test_a_bad_file_is_refused(content: bytes) -> None:
    with pytest.raises(BadRules):
        user_rules(read_users(content))


def test_a_new_user_is_normal_and_enabled(document: UsersDocument) -> None:
    after = create_user(document, User(username="bob", password="p"))
    (bob,) = listed_users(after, "bo")
    assert (bob.user_type, bob.user_status) == ("Normal", "enable")


@pytest.mark.parametrize(
    "user",
    [
        User(username="ann", password="p"),
        User(username="bob"),
        User(password="p"),
        User(username="bob", password="p", user_type="Nonsense"),
    ],
)
def test_a_bad_new_user_is_refused(document: UsersDocument, user: User) -> None:
    with pytest.raises(BadRules):
        create_user(document, user)


def test_what_is_not_given_stays(document: UsersDocument) -> None:
    after = update_user(document, User(username="ann", user_status="disable"))
    assert not user_rules(after).users["ann"].is_enabled
    assert user_rules(after).users["ann"].password == "12345678"
    with raises(UnknownUser, name="bob"):
        update_user(document, User(username="bob", user_status="disable"))


def test_policies_end_with_their_user(document: UsersDocument) -> None:
    after = delete_user(document, "ann")
    assert listed_acls(after, None, None) == []
    with raises(UnknownUser, name="ann"):
        known_acl(after, "User:ann")
    assert delete_user(after, "ann") == after


def test_policies_of_one_resource_are_replaced_and_others_are_added(
    document: UsersDocument,
) -> None:
    after = put_acl(put_acl(document, acl("group:billing", "sub")), acl("Topic:orders", "Get"))
    assert resources(after) == ["Topic:orders", "Group:billing"]
    (first, second) = user_rules(after).users["ann"].custom
    assert (first.actions, first.networks) == (frozenset({Action.GET}), ())
    assert second.actions == {Action.SUB}


def test_bad_policies_are_refused(document: UsersDocument) -> None:
    for bad in (
        acl("Topic:a*b", "Pub"),
        acl("Topic:a"),
        acl("Topic:a", "Pub", decision="Maybe"),
        Acl(subject="User:ann", policies=[]),
        Acl(subject="Role:ann", policies=acl("Topic:a", "Pub").policies),
    ):
        with pytest.raises(BadRules):
            put_acl(document, bad)
    with raises(UnknownUser, name="bob"):
        put_acl(document, acl("Topic:a", "Pub", name="bob"))


def test_a_policy_is_deleted_by_its_resource(document: UsersDocument) -> None:
    more = put_acl(document, acl("Group:billing", "Sub"))
    assert resources(delete_acl(more, "User:ann", "topic:orders", None)) == ["Group:billing"]
    rest = delete_acl(document, "User:ann", "Topic:orders", "Custom")
    with raises(UnknownPolicy, name="ann"):
        known_acl(rest, "User:ann")
    assert delete_acl(more, "User:ann", None, None).acls == []
    with raises(UnknownPolicy, name="root"):
        delete_acl(document, "User:root", None, None)


def test_lists_have_parts_of_names(document: UsersDocument) -> None:
    assert [user.username for user in listed_users(document, None)] == ["ann", "root", "gone"]
    more = put_acl(document, acl("Group:billing", "Sub"))
    (found,) = listed_acls(more, "an", "bill")
    assert [e.resource for p in found.policies or () for e in p.entries or ()] == ["Group:billing"]
    assert listed_acls(more, "root", None) == []
