"""`roquet account`: at a file and at brokers, one of whom shares its file with the other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roquet.access.acl_file import read_document, rules_of
from roquet.client.admin.cluster import AccountSettings
from roquet.client.blocking.admin import Admin
from roquet.client.config import Credentials
from roquet.client.errors import RequestRefused
from roquet.protocol.acl import EITHER, Right
from roquet.testing.blocking import BlockingCluster
from tests.support.accounts import ADMIN, KNOWN, PUBLISHER, accounts_file
from tests.support.command_line import Finished, roquet
from tests.support.snapshots import check_snapshot, check_text, settled
from tests.unit.cli.conftest import Shop

NEWCOMER = "newcomer"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingCluster]:
    """Two brokers with access control, and one file for both."""
    path = accounts_file(tmp_path_factory.mktemp("accounts"))
    settings = {"aclEnable": "true", "aclFile": str(path)}
    with BlockingCluster(brokers=2, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def at_brokers(guarded: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> BlockingCluster:
    monkeypatch.setenv("NAMESRV_ADDR", guarded.name_server)
    sign(monkeypatch, *ADMIN)
    return guarded


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Called by the same name wherever it is."""
    monkeypatch.chdir(tmp_path)
    return Path(accounts_file(tmp_path).name)


def sign(monkeypatch: pytest.MonkeyPatch, access_key: str, secret_key: str) -> None:
    monkeypatch.setenv("ROQUET_ACCESS_KEY", access_key)
    monkeypatch.setenv("ROQUET_SECRET_KEY", secret_key)


def answer_of(*words: str | Path) -> Any:
    finished = roquet("account", *words, "--json")
    assert finished.exit_code == 0, finished.stderr
    return json.loads(finished.stdout)


def add(path: Path, *arguments: str) -> Finished:
    return roquet("account", "add", *arguments, "--acl-file", path)


def is_let_in(name_server: str, address: str, credentials: Credentials) -> bool:
    with Admin(name_server, credentials=credentials) as admin:
        try:
            admin.broker_accounts(address)
        except RequestRefused:
            return False
        return True


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("account_list", ["list"]),
        ("account_show", ["show", "subscriber"]),
        ("account_change", ["change", "subscriber", "--topic", "orders=DENY", "--dry-run"]),
        ("account_new_secret", ["change", "subscriber", "--new-secret", "--dry-run"]),
        ("account_remove", ["remove", "subscriber", "--dry-run"]),
    ],
)
class TestWhatIsPrinted:
    def test_of_a_file(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: list[str]
    ) -> None:
        words = ["account", *words, "--acl-file", str(file)]
        check_snapshot(monkeypatch, f"{name}_file", *words)

    @pytest.mark.usefixtures("at_brokers")
    def test_of_brokers(self, monkeypatch: pytest.MonkeyPatch, name: str, words: list[str]) -> None:
        check_snapshot(monkeypatch, name, "account", *words)


def test_an_account_is_made_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "conf" / "plain_acl.yml"
    words = ("shop-front", "--topic", "orders=PUB|SUB", "--all-groups", "SUB")
    printed = answer_of("add", *words, "--acl-file", path)
    account = rules_of({path: read_document(path.read_bytes())}).accounts["shop-front"]
    assert (account.access_key, account.secret_key) == (
        printed["access_key"],
        printed["secret_key"],
    )
    assert len(account.secret_key) >= 32
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


def test_only_what_is_given_is_changed_in_a_file(file: Path) -> None:
    def account() -> Any:
        return rules_of({file: read_document(file.read_bytes())}).accounts["subscriber"]

    before = account()
    words = ("--topic", "bills=PUB", "--forget-topic", "orders", "--addresses", "10.0.0.*")
    answer_of("change", "subscriber", *words, "--all-topics", "SUB", "--admin", "--acl-file", file)
    after = account()
    assert after.secret_key == before.secret_key
    assert {name: after.rights[name] for name in after.rights if name[:1] != "%"} == {
        "bills": Right.PUB
    }
    assert after.rights["%RETRY%billing"] == Right.SUB
    assert after.trusted_addresses.include("10.0.0.7")
    assert (after.is_admin, after.topic_right) == (True, Right.SUB)
    printed = answer_of("change", "subscriber", "--new-secret", "--yes", "--acl-file", file)
    assert account().secret_key == printed["secret_key"] != before.secret_key


def test_an_account_of_a_file_is_removed_after_a_confirmation(file: Path) -> None:
    assert roquet("account", "remove", "subscriber", "--acl-file", file).exit_code == 1
    assert b"subscriber" in file.read_bytes()
    assert roquet("account", "remove", "subscriber", "--yes", "--acl-file", file).exit_code == 0
    assert b"subscriber" not in file.read_bytes()


def test_an_account_lives_and_ends_at_all_brokers(at_brokers: BlockingCluster) -> None:
    addresses = [at_brokers.broker_address(name) for name in at_brokers.broker_names]

    def who_lets_in(credentials: Credentials) -> list[bool]:
        return [is_let_in(at_brokers.name_server, each, credentials) for each in addresses]

    printed = answer_of("add", NEWCOMER, "--admin", "--addresses", "192.0.2.1")
    first = Credentials(printed["access_key"], printed["secret_key"])
    assert who_lets_in(first) == [True, True]
    printed = answer_of("change", NEWCOMER, "--new-secret", "--yes")
    second = Credentials(NEWCOMER, printed["secret_key"])
    assert (who_lets_in(first), who_lets_in(second)) == ([False, False], [True, True])
    answer_of("change", NEWCOMER, "--no-admin", "--all-topics", "SUB")
    assert who_lets_in(second) == [False, False]
    with Admin(at_brokers.name_server, credentials=Credentials(*ADMIN)) as admin:
        for address in addresses:
            assert admin.broker_accounts(address).accounts[NEWCOMER] == AccountSettings(
                topic_right="SUB", trusted_addresses="192.0.2.1"
            )
        assert roquet("account", "remove", NEWCOMER, "--yes").exit_code == 0
        for address in addresses:
            assert NEWCOMER not in admin.broker_accounts(address).accounts


def test_what_is_so_already_is_no_change(at_brokers: BlockingCluster) -> None:
    finished = roquet("account", "change", KNOWN.access_key, "--no-admin")
    assert finished.exit_code == 0
    assert finished.stderr == "roquet account change: nothing to change\n"


def test_brokers_refuse_what_makes_no_sense(at_brokers: BlockingCluster) -> None:
    finished = roquet("account", "add", "short")
    assert (finished.exit_code, finished.stdout) == (1, "")
    assert "need 7 characters or more" in finished.stderr


def test_a_single_broker_is_named(at_brokers: BlockingCluster) -> None:
    (settings,) = answer_of("show", KNOWN.access_key, "--broker", "broker-b")["settings"]
    assert settings["at"] == "broker-b"


def test_no_secret_is_ever_listed(at_brokers: BlockingCluster, file: Path) -> None:
    for place in ((), ("--acl-file", str(file))):
        for words in (("list",), ("show", KNOWN.access_key)):
            for form in ((), ("--json",)):
                printed = roquet("account", *words, *place, *form).stdout
                assert KNOWN.access_key in printed
                assert KNOWN.secret_key not in printed


def test_mqadmins_names_are_a_second_way_in(at_brokers: BlockingCluster) -> None:
    printed = roquet("mqadmin", "getAclConfig", "-c", "DefaultCluster", "--json").stdout
    assert printed == roquet("account", "list", "--json").stdout
    answer_of("add", NEWCOMER)
    words = ("-b", at_brokers.broker_address(), "-a", NEWCOMER)
    assert roquet("mqadmin", "deleteAclConfig", *words).exit_code == 0
    assert roquet("account", "show", NEWCOMER, "--broker", "broker-a").exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "complaint", "exit_code"),
    [
        (["operator"], "account 'operator' already exists", 1),
        (["short"], "7 characters", 1),
        (["shop-front", "--topic", "orders"], "NAME=RIGHT", 2),
        (["shop-front", "--all-topics", "ALL"], "'ALL' is not a right", 2),
        (["shop-front", "--addresses", "10.0.0"], "'10.0.0' is neither an address", 1),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    tmp_path: Path, arguments: list[str], complaint: str, exit_code: int
) -> None:
    path = tmp_path / "plain_acl.yml"
    add(path, "operator")
    before = path.read_bytes()
    result = add(path, *arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert path.read_bytes() == before


def test_error_paths(
    at_brokers: BlockingCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*words: str) -> str:
        finished = roquet("account", *words)
        assert finished.exit_code > 0
        return f"{finished.exit_code} {finished.stderr}"

    lines = [
        failing("show", "nobody-here"),
        failing("remove", "nobody-here", "--yes"),
        failing("change", KNOWN.access_key, "--forget-topic", "orders"),
        failing("change", KNOWN.access_key, "--new-secret"),
        failing("add", KNOWN.access_key),
        failing("list", "--broker", "absent"),
        failing("list", "--cluster", "absent"),
        failing("list", "--acl-file", "absent.yml"),
        failing("show", "nobody-here", "--acl-file", str(file)),
    ]
    sign(monkeypatch, *PUBLISHER)
    lines.append(failing("list"))
    check_text("account_errors", settled("".join(lines)))


def test_brokers_without_access_control_say_so(at: Shop) -> None:
    finished = roquet("account", "list")
    assert finished.exit_code == 1
    assert "there is no access control here: see aclEnable" in finished.stderr
