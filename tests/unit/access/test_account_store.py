"""Files of accounts as they come, change, break and go."""

import logging
import os
from functools import partial
from pathlib import Path

import msgspec
import pytest

from roquet.access.account_store import (
    AccountPaths,
    AccountStore,
    apache_account_paths,
    delete_account,
    open_account_store,
    put_account,
    trust_addresses,
)
from roquet.access.acl_file import RulesDocument, read_document
from roquet.access.errors import BadRules, RulesNotSaved, UnknownAccount
from roquet.access.rules_files import FILE_SIZE_MAX
from roquet.disk import Disk
from roquet.protocol.bodies.brokers import AccountConfig
from tests.support.accounts import ACCOUNTS, ADMIN, KNOWN, accounts_file
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.quick_disk import QuickDisk
from tests.support.raising import raises

NEWCOMER = AccountConfig(access_key="newcomer", secret_key="12345678")


class Settings(msgspec.Struct):
    access_control: bool = True
    accounts_file: Path | None = None
    home: Path | None = None


def kept(path: Path, disk: Disk | None = None) -> AccountStore:
    return AccountStore(AccountPaths(path), disk or QuickDisk(), FakeClock())


def rewrite(path: Path, text: str) -> None:
    """Also a file that is written in the same millisecond is another one."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


# --- where they are ---


def test_without_access_control_no_files_are_read() -> None:
    assert open_account_store(Settings(access_control=False), QuickDisk(), FakeClock()) is None


def test_a_file_that_is_named_counts_for_more_than_apaches_places(tmp_path: Path) -> None:
    named = accounts_file(tmp_path)
    found = open_account_store(Settings(True, named, tmp_path / "home"), QuickDisk(), FakeClock())
    assert found is not None
    assert found.default_file == named


def test_apaches_places_are_one_file_and_a_directory(tmp_path: Path) -> None:
    places = apache_account_paths(tmp_path)
    assert places.directory is not None
    places.directory.mkdir(parents=True)
    accounts_file(places.file.parent)
    (places.directory / "more.yml").write_text(
        "accounts: [{accessKey: a-second, secretKey: 12345678}]"
    )
    (places.directory / "tools.yml").write_text("accessKey: x\n")
    (places.directory / "notes.txt").write_text("{")
    found = open_account_store(Settings(home=tmp_path), QuickDisk(), FakeClock())
    assert found is not None
    assert {ADMIN.access_key, "a-second"} <= found.rules.accounts.keys()
    assert list(found.versions()) == [places.file, places.directory / "more.yml"]


def test_access_control_without_any_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRules, match="--acl-file"):
        open_account_store(Settings(), QuickDisk(), FakeClock())
    with pytest.raises(BadRules, match="roquet account add"):
        kept(tmp_path / "none.yml")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yml"
    with path.open("wb") as file:
        file.truncate(FILE_SIZE_MAX + 1)
    with pytest.raises(BadRules, match="limit"):
        kept(path)


def test_addresses_that_need_no_account_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(accounts_file(tmp_path, "globalWhiteRemoteAddresses: [10.0.0.*]"))
    assert "10.0.0.*" in caplog.text


# --- changed by an operator ---


async def test_a_changed_file_counts_as_soon_as_it_is_looked_at(tmp_path: Path) -> None:
    path = accounts_file(tmp_path)
    accounts = kept(path)
    before = accounts.rules
    await accounts.reload_if_changed()
    assert accounts.rules is before
    rewrite(path, "accounts: [{accessKey: newcomer, secretKey: 12345678}]")
    await accounts.reload_if_changed()
    assert list(accounts.rules.accounts) == ["newcomer"]


@pytest.mark.parametrize("text", ["accounts: [", "", "accounts: [{accessKey: x}]"])
async def test_a_broken_file_changes_nothing_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = accounts_file(tmp_path)
    accounts = kept(path)
    before = accounts.rules
    if text:
        rewrite(path, text)
    else:
        path.unlink()
    await accounts.reload_if_changed()
    await accounts.reload_if_changed()
    assert accounts.rules is before
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "keeping the previous accounts" in errors[0].message
    path.write_text(ACCOUNTS.replace(KNOWN.access_key, "repaired"))
    await accounts.reload_if_changed()
    assert "repaired" in accounts.rules.accounts


# --- changed by us ---


async def test_an_unsaved_change_counts_in_memory(tmp_path: Path) -> None:
    path = accounts_file(tmp_path)
    path.chmod(0o644)
    accounts = kept(path)
    await accounts.change(partial(put_account, default=path, changes=NEWCOMER))
    assert "newcomer" in accounts.rules.accounts
    assert path.stat().st_mode & 0o777 == 0o600
    document = read_document(path.read_bytes())
    assert (document.version.counter, document.version.timestamp) == (1, START_MS)
    assert accounts.versions() == {path: document.version}
    before = accounts.rules
    await accounts.reload_if_changed()
    assert accounts.rules is before


async def test_a_change_keeps_what_another_program_has_written_meanwhile(tmp_path: Path) -> None:
    path = accounts_file(tmp_path)
    accounts = kept(path)
    rewrite(path, ACCOUNTS.replace(KNOWN.access_key, "meanwhile"))
    await accounts.change(partial(put_account, default=path, changes=NEWCOMER))
    assert {"meanwhile", "newcomer"} <= accounts.rules.accounts.keys()


async def test_what_cannot_be_obeyed_is_not_written(tmp_path: Path) -> None:
    path = accounts_file(tmp_path)
    accounts = kept(path)
    for edit, error in (
        (partial(put_account, default=path, changes=AccountConfig(access_key="short")), BadRules),
        (partial(trust_addresses, path=path, addresses=["here"]), BadRules),
        (partial(delete_account, access_key="stranger"), UnknownAccount),
    ):
        with pytest.raises(error):
            await accounts.change(edit)
    assert path.read_text() == ACCOUNTS


class FullDisk(QuickDisk):
    def sync(self, descriptor: int) -> None:
        raise OSError(f"no space for {descriptor}")


async def test_what_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    path = accounts_file(tmp_path)
    accounts = kept(path, FullDisk())
    with pytest.raises(RulesNotSaved, match="no space"):
        await accounts.change(partial(put_account, default=path, changes=NEWCOMER))
    assert "newcomer" not in accounts.rules.accounts
    assert path.read_text() == ACCOUNTS


# --- changes, as values ---


MAIN, OTHER = Path("plain_acl.yml"), Path("acl/other.yml")
DOCUMENTS = {
    MAIN: read_document(ACCOUNTS.encode()),
    OTHER: read_document(b"accounts: [{accessKey: elsewhere, secretKey: 12345678}]"),
}


def keys(document: RulesDocument) -> list[str]:
    return [each.access_key for each in document.accounts or ()]


def test_a_new_account_goes_into_the_default_file() -> None:
    path, document = put_account(DOCUMENTS, MAIN, AccountConfig(access_key="newcomer"))
    assert path == MAIN
    assert keys(document) == [*keys(DOCUMENTS[MAIN]), "newcomer"]


def test_an_account_is_changed_in_place_and_only_as_requested() -> None:
    changes = AccountConfig(access_key="elsewhere", admin=True, topic_perms=["orders=PUB"])
    path, document = put_account(DOCUMENTS, MAIN, changes)
    assert path == OTHER
    assert document.accounts is not None
    (account,) = document.accounts
    assert (account.secret_key, account.admin) == ("12345678", True)
    assert account.topic_perms == ["orders=PUB"]


def test_an_account_is_deleted_where_it_is() -> None:
    path, document = delete_account(DOCUMENTS, KNOWN.access_key)
    assert path == MAIN
    assert keys(document)[0] == ADMIN.access_key
    assert KNOWN.access_key not in keys(document)
    with raises(UnknownAccount, access_key="stranger"):
        delete_account(DOCUMENTS, "stranger")


def test_addresses_are_those_of_one_file_that_is_ours() -> None:
    path, document = trust_addresses(DOCUMENTS, OTHER, ["10.0.0.1"])
    assert (path, document.global_white_remote_addresses) == (OTHER, ["10.0.0.1"])
    with pytest.raises(BadRules, match="file of accounts"):
        trust_addresses(DOCUMENTS, Path("/etc/passwd"), [])
