"""`roquet account user` and mqadmin's names for it: in a file and at brokers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roquet.access.user_file import read_users, user_rules
from roquet.client.admin.users import UserPolicy, UserSettings
from roquet.client.blocking.admin import Admin
from roquet.client.config import Credentials
from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet

ROOT = Credentials("root", "root-password")
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-password"}',
}
ORDERS = UserPolicy("Topic:orders", ("Pub", "Sub"))


@pytest.fixture(scope="module")
def guarded() -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=2, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def at_brokers(guarded: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> BlockingCluster:
    monkeypatch.setenv("NAMESRV_ADDR", guarded.name_server)
    monkeypatch.setenv("ROQUET_ACCESS_KEY", ROOT.access_key)
    monkeypatch.setenv("ROQUET_SECRET_KEY", ROOT.secret_key)
    return guarded


def answer_of(*words: str | Path) -> Any:
    finished = roquet(*words, "--json")
    assert finished.exit_code == 0, finished.stderr
    return json.loads(finished.stdout)


def users_at(cluster: BlockingCluster) -> list[dict[str, UserSettings]]:
    with Admin(cluster.name_server, credentials=ROOT) as admin:
        brokers = admin.brokers(with_state=False)
        return [admin.broker_users(broker.address) for broker in brokers]


def test_a_user_in_a_file_is_added_changed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "users.yml"
    where = ("--users-file", path)
    added = answer_of("account", "user", "add", "ann", "--allow", "Topic:orders=Pub,Sub", *where)
    user = user_rules(read_users(path.read_bytes())).users["ann"]
    assert user.password == added["password"]
    assert [str(rule.resource) for rule in user.custom] == ["Topic:orders"]
    more = ("--deny", "Group:b*=Sub", "--source", "10.0.0.0/8", "--forget", "Topic:orders")
    answer_of("account", "user", "change", "ann", "--super", "--disable", *more, *where)
    user = user_rules(read_users(path.read_bytes())).users["ann"]
    assert (user.is_super, user.is_enabled, user.password) == (True, False, added["password"])
    assert [str(rule.resource) for rule in user.custom] == ["Group:b*"]
    shown = answer_of("account", "user", "show", "ann", *where)
    assert shown["policies"][0]["sources"] == "10.0.0.0/8"
    answer_of("account", "user", "remove", "ann", "--yes", *where)
    assert answer_of("account", "user", "list", *where)["users"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("show", "unheard-of"),
        ("change", "unheard-of", "--super"),
        ("add", "ann", "--allow", "Topic:orders"),
        ("add", "ann", "--allow", "Nonsense:orders=Pub"),
        ("add", "ann", "--allow", "Topic:orders=Nonsense"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    finished = roquet("account", "user", *words, "--users-file", tmp_path / "users.yml")
    assert finished.exit_code != 0
    assert len(finished.stderr.splitlines()) == 1


def test_users_of_all_brokers_are_changed(at_brokers: BlockingCluster) -> None:
    words = ("add", "ann", "--allow", "Topic:orders=Pub,Sub")
    password = answer_of("account", "user", *words)["password"]
    assert [users["ann"] for users in users_at(at_brokers)] == [
        UserSettings(policies=(ORDERS,))
    ] * 2
    answer_of("account", "user", "change", "ann", "--forget", "", "--allow", "*=Get")
    everything = UserSettings(policies=(UserPolicy("*", ("Get",)),))
    assert [users["ann"] for users in users_at(at_brokers)] == [everything] * 2
    again = roquet("account", "user", "add", "ann")
    assert "already exists" in again.stderr
    assert password not in roquet("account", "user", "list").stdout
    answer_of("account", "user", "remove", "ann", "--yes")
    assert all("ann" not in users for users in users_at(at_brokers))


def test_users_are_copied_from_a_broker_to_another(at_brokers: BlockingCluster) -> None:
    with Admin(at_brokers.name_server, credentials=ROOT) as admin:
        one, other = (each.address for each in admin.brokers(with_state=False))
        settings = UserSettings(policies=(ORDERS, UserPolicy("*", ("Get",), is_default=True)))
        admin.put_user(one, "ann", settings, password="ann-password")
        admin.put_user(other, "ann", UserSettings(is_super=True), password="another-one")
        words = ("--from", one, "--to", other)
        answer_of("account", "user", "copy", "ann", *words)
        assert admin.broker_users(other)["ann"] == settings
        # Who has the password may ask; the policy allows it.
        with Admin(at_brokers.name_server, credentials=Credentials("ann", "ann-password")) as ann:
            assert "ann" in ann.broker_users(other)
        missing = roquet("account", "user", "copy", "bob", *words)
        assert missing.exit_code != 0
        assert "'bob' does not exist" in missing.stderr
        admin.delete_user(other, "ann")
        copied = answer_of("account", "user", "copy", *words)
        assert [each["user"] for each in copied["users"]] == ["ann", "root"]
        assert admin.broker_users(other)["ann"] == settings
    answer_of("account", "user", "remove", "ann", "--yes")


def test_names_of_apaches_tool_do_the_same(at_brokers: BlockingCluster) -> None:
    subject = ("-s", "User:bob")
    answer_of("mqadmin", "createUser", "-u", "bob", "-p", "bob-password", "-t", "Super")
    answer_of("mqadmin", "updateUser", "-u", "bob", "-t", "Normal", "-s", "disable")
    policy = ("-r", "Topic:orders,Topic:o*", "-a", "Pub,Sub", "-d", "Allow")
    answer_of("mqadmin", "createAcl", *subject, *policy)
    answer_of("mqadmin", "deleteAcl", *subject, "-r", "Topic:o*")
    expected = UserSettings(is_enabled=False, policies=(ORDERS,))
    assert [users["bob"] for users in users_at(at_brokers)] == [expected] * 2
    assert len(answer_of("mqadmin", "listAcl", *subject)["policies"]) == 2
    assert len(answer_of("mqadmin", "getUser", "-u", "bob")["users"]) == 2
    answer_of("mqadmin", "deleteUser", "-u", "bob")
    assert all("bob" not in users for users in users_at(at_brokers))
