"""Who may log in."""

from pathlib import Path

import pytest

from roquet.dashboard.errors import BadPasswordFile, LoginRequired
from roquet.dashboard.web.logins import ClusterAccounts, PasswordFile, password_line
from roquet.dashboard.web.server import DashboardConfig, login_of
from roquet.protocol.host import Address
from roquet.testing.cluster import Cluster
from tests.support.accounts import ADMIN, PUBLISHER, accounts_file
from tests.support.raising import raises

EVERYWHERE = "0.0.0.0"  # noqa: S104


async def test_a_user_of_the_file_with_the_right_password_only(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text(f"{password_line('ada', 'right')}\n\n{password_line('bob', 'other')}\n")
    logins = PasswordFile(path)
    assert await logins.is_right("ada", "right")
    assert not await logins.is_right("ada", "other")
    assert not await logins.is_right("eve", "right")
    assert not await logins.is_right("ada", "right" * 1000)


async def test_an_administrator_of_the_cluster_and_no_other_account(tmp_path: Path) -> None:
    settings = {"aclEnable": "true", "aclFile": str(accounts_file(tmp_path))}
    async with Cluster(settings=settings) as cluster:
        logins = ClusterAccounts(cluster.name_server, {})
        assert await logins.is_right(*ADMIN)
        assert not await logins.is_right(*PUBLISHER)
        assert not await logins.is_right(ADMIN[0], "another secret")


async def test_where_there_are_no_accounts_no_user_logs_in() -> None:
    async with Cluster() as cluster:
        assert not await ClusterAccounts(cluster.name_server, {}).is_right("eve", "any secret")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada:secret",
        "ada:scrypt:99:8:1:c2FsdA==:aGFzaA==",
        "ada:scrypt:15:8:1:not base64:aGFzaA==",
        ":scrypt:15:8:1:c2FsdA==:aGFzaA==",
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "passwords"
    path.write_text(text)
    with raises(BadPasswordFile, path=path, line=1 if text else None):
        PasswordFile(path)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with raises(BadPasswordFile, path=tmp_path / "none", line=None):
        PasswordFile(tmp_path / "none")


def test_a_name_with_a_colon_is_refused() -> None:
    with pytest.raises(BadPasswordFile):
        password_line("a:b", "secret")


def test_beyond_this_machine_there_is_a_login_or_no_server() -> None:
    here = DashboardConfig(place=Address("127.0.0.1", 0), name_server=None)
    assert login_of(here) is None
    with pytest.raises(LoginRequired, match="--password-file"):
        login_of(DashboardConfig(place=Address(EVERYWHERE, 0), name_server=None))
