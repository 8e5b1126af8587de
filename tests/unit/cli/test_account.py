"""`roquet account`: accounts with secrets that nobody can guess."""

from pathlib import Path

import pytest

from roquet.access.rules_text import read_document, rules_of
from roquet.protocol.acl_rights import EITHER, Right
from tests.support.command_line import Finished, roquet


def add(path: Path, *arguments: str) -> Finished:
    return roquet("account", "add", *arguments, "--acl-file", path)


def test_an_account_is_made_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "conf" / "plain_acl.yml"
    result = add(path, "shop-front", "--topic", "orders=PUB|SUB", "--all-groups", "SUB")
    assert result.exit_code == 0, result.stderr
    key, secret = (line.partition(": ")[2] for line in result.stdout.splitlines())
    account = rules_of({path: read_document(path.read_bytes())}).accounts["shop-front"]
    assert (account.access_key, account.secret_key) == (key, secret)
    assert len(secret) >= 32
    assert (account.rights, account.group_right) == ({"orders": EITHER}, Right.SUB)
    assert not account.is_admin
    assert path.stat().st_mode & 0o777 == 0o600


def test_others_stay_and_no_two_secrets_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    first, second = add(path, "operator", "--admin"), add(path, "shop-front")
    assert first.exit_code == second.exit_code == 0
    accounts = rules_of({path: read_document(path.read_bytes())}).accounts
    assert accounts["operator"].is_admin
    assert accounts["operator"].secret_key != accounts["shop-front"].secret_key


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["operator"], "there is an account 'operator' already"),
        (["short"], "7 characters"),
        (["shop-front", "--topic", "orders"], "NAME=RIGHT"),
        (["shop-front", "--all-topics", "ALL"], "'ALL' is no right"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    path = tmp_path / "plain_acl.yml"
    add(path, "operator")
    before = path.read_bytes()
    result = add(path, *arguments)
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert path.read_bytes() == before
