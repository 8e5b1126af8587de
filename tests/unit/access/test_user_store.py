"""The file of users as it comes, changes, breaks and goes."""

import logging
import os
from functools import partial
from pathlib import Path

import msgspec
import pytest

from roquet.access.accounts import OwnAccount
from roquet.access.errors import BadRules, RulesNotSaved, UnknownUser
from roquet.access.user_file import create_user, update_user
from roquet.access.user_store import UserStore, open_user_store, read_user_file
from roquet.protocol.bodies.brokers import User
from tests.support.quick_disk import QuickDisk
from tests.support.raising import raises

ANN = User(username="ann", password="its-password")


class Settings(msgspec.Struct):
    authentication: bool = True
    authorization: bool = True
    first_user: User | None = None
    own_account: OwnAccount | None = None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "users.yml"


def opened(path: Path, settings: Settings) -> UserStore:
    store = open_user_store(settings, path, QuickDisk())
    assert store is not None
    return store


def make_unwritable(path: Path) -> None:
    path.unlink()
    path.mkdir()


def rewrite(path: Path, text: str, second: int) -> None:
    """A file that is written in the same millisecond is another one, too."""
    path.write_text(text)
    os.utime(path, ns=(second * 10**9, second * 10**9))


def test_without_authentication_there_are_no_users(path: Path) -> None:
    off = Settings(authentication=False, authorization=False)
    assert open_user_store(off, path, QuickDisk()) is None


def test_authorization_alone_would_trust_every_access_key(path: Path) -> None:
    with pytest.raises(BadRules):
        open_user_store(Settings(authentication=False), path, QuickDisk())


def test_the_first_users_are_super_and_stay_as_they_are(path: Path) -> None:
    settings = Settings(first_user=ANN, own_account=OwnAccount("broker-a", "hush-hush"))
    users = opened(path, settings).rules.users
    assert {name: user.is_super for name, user in users.items()} == {"ann": True, "broker-a": True}
    before = path.read_bytes()
    settings.first_user = User(username="ann", password="another")
    assert opened(path, settings).rules.users["ann"].password == ANN.password
    assert path.read_bytes() == before


def test_a_broker_without_users_warns(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert opened(path, Settings()).rules.users == {}
    assert "initAuthenticationUser" in caplog.text


async def test_a_change_is_in_force_and_in_the_file(path: Path) -> None:
    store = opened(path, Settings(first_user=ANN))
    await store.change(partial(update_user, user=User(username="ann", user_status="disable")))
    assert not store.rules.users["ann"].is_enabled
    assert not opened(path, Settings()).rules.users["ann"].is_enabled
    with raises(UnknownUser, name="bob"):
        await store.change(partial(update_user, user=User(username="bob")))


async def test_a_file_that_cannot_be_written_changes_nothing(path: Path) -> None:
    store = opened(path, Settings(first_user=ANN))
    make_unwritable(path)
    with raises(RulesNotSaved, path=path):
        await store.change(partial(create_user, user=User(username="bob", password="p")))
    assert list(store.rules.users) == ["ann"]


async def test_a_changed_file_is_reloaded_and_a_broken_one_is_not(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(path, Settings(first_user=ANN))
    for number, (text, names) in enumerate(
        [
            ("users: [{username: bob, password: p}]", ["bob"]),
            ("users: [{username: bob}]", ["bob"]),
            ("users: []", []),
        ]
    ):
        rewrite(path, text, number)
        await store.reload_if_changed()
        assert list(store.rules.users) == names
    assert "keeping the previous users" in caplog.text


def test_a_bad_file_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("users: [{username: bob}]")
    with raises(BadRules, path=path):
        read_user_file(path, QuickDisk())
    with raises(BadRules, path=path):
        UserStore(path, QuickDisk())
