"""Changes of accounts, as values."""

from pathlib import Path

import pytest

from roquet.access.changes import delete_account, put_account, trust_addresses
from roquet.access.errors import BadRules, UnknownAccount
from roquet.access.rules_text import RulesDocument, read_document
from roquet.protocol.bodies.accounts import PlainAccount
from tests.support.accounts import ACCOUNTS, ADMIN, KNOWN

MAIN, OTHER = Path("plain_acl.yml"), Path("acl/other.yml")
DOCUMENTS = {
    MAIN: read_document(ACCOUNTS.encode()),
    OTHER: read_document(b"accounts: [{accessKey: elsewhere, secretKey: 12345678}]"),
}


def keys(document: RulesDocument) -> list[str]:
    return [each.access_key for each in document.accounts or ()]


def test_a_new_account_goes_into_the_default_file() -> None:
    path, document = put_account(DOCUMENTS, MAIN, PlainAccount(access_key="newcomer"))
    assert path == MAIN
    assert keys(document) == [*keys(DOCUMENTS[MAIN]), "newcomer"]


def test_an_account_is_changed_where_it_is_and_only_what_is_said() -> None:
    changes = PlainAccount(access_key="elsewhere", admin=True, topic_perms=["orders=PUB"])
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
    with pytest.raises(UnknownAccount, match="stranger"):
        delete_account(DOCUMENTS, "stranger")


def test_addresses_are_those_of_one_file_that_is_ours() -> None:
    path, document = trust_addresses(DOCUMENTS, OTHER, ["10.0.0.1"])
    assert (path, document.global_white_remote_addresses) == (OTHER, ["10.0.0.1"])
    with pytest.raises(BadRules, match="no file of accounts"):
        trust_addresses(DOCUMENTS, Path("/etc/passwd"), [])
