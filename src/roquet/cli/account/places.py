"""Where accounts are kept: in a file, or at the brokers of a cluster, each of which has its own."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol, final

from roquet.access.account_store import (
    AccountPaths,
    delete_account,
    put_account,
    read_accounts,
    write_change,
)
from roquet.cli.admin_commands.commands import Session, brokers_named
from roquet.cli.admin_commands.failures import NOT_FOUND, Failed
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import (
    AccountSettings,
    BrokerAccounts,
    BrokerInfo,
    plain_account,
    settings_of,
)
from roquet.client.errors import RequestRefused, Unreachable
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.protocol.codes import ResponseCode

# Brokers that share a file look at it once a second.
_SHARED_FILE_LOOKS: Final = 30
_SHARED_FILE_LOOK_PERIOD_S: Final = 0.1

_SWITCH: Final = "aclEnable"
# Remark of an Apache broker for an empty list of permissions.
_NO_RIGHTS_REFUSED: Final = "Parse Resource format error for ."


class AccountPlace(Protocol):
    """Raises RoquetError."""

    @property
    def name(self) -> str: ...

    async def accounts(self) -> BrokerAccounts: ...

    async def has(self, access_key: str) -> bool: ...

    async def put(
        self, access_key: str, settings: AccountSettings, secret_key: str | None
    ) -> None: ...

    async def remove(self, access_key: str) -> None: ...


async def account_places(session: Session) -> Sequence[AccountPlace]:
    """As given: one file, one broker, or all of them. Raises Failed."""
    given = session.given
    if given.acl_file is not None:
        return [AccountsFile(given.acl_file)]
    if given.broker is not None:
        found = await brokers_named(session, given.broker)
    else:
        found = await session.admin.brokers(with_state=False)
        found = [each for each in found if given.cluster in (None, each.cluster)]
    if not found:
        where = f" of cluster {given.cluster!r}" if given.cluster else ""
        raise Failed(f"no broker{where} is registered; see: roquet cluster", NOT_FOUND)
    return [AccountsAtBroker(session.admin, each) for each in found]


# The settings of an account, with the places that have the same ones.
SettingsByPlaces = list[tuple[list[AccountPlace], AccountSettings]]


def alike(found: Iterable[tuple[AccountPlace, AccountSettings]]) -> SettingsByPlaces:
    """Places with the same settings are one."""
    variants: SettingsByPlaces = []
    for place, settings in found:
        for at, others in variants:
            if others == settings:
                at.append(place)
                break
        else:
            variants.append(([place], settings))
    return variants


@final
class AccountsFile:
    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._places = AccountPaths(path)
        self._disk = SystemDisk()

    async def accounts(self) -> BrokerAccounts:
        """Raises BadRules, also if there is no such file."""
        documents = read_accounts(self._places, self._disk).documents.values()
        return BrokerAccounts(
            {
                each.access_key: settings_of(each)
                for document in documents
                for each in document.accounts or ()
            },
            tuple(
                each
                for document in documents
                for each in document.global_white_remote_addresses or ()
            ),
        )

    async def has(self, access_key: str) -> bool:
        """False if the file does not exist yet."""
        return self._places.file.exists() and access_key in (await self.accounts()).accounts

    async def put(self, access_key: str, settings: AccountSettings, secret_key: str | None) -> None:
        changes = plain_account(access_key, settings, secret_key)
        edit = partial(put_account, default=self._places.file, changes=changes)
        write_change(self._places, self._disk, edit, SystemClock().now_ms())

    async def remove(self, access_key: str) -> None:
        edit = partial(delete_account, access_key=access_key)
        write_change(self._places, self._disk, edit, SystemClock().now_ms())


@final
class AccountsAtBroker:
    def __init__(self, admin: AsyncAdmin, broker: BrokerInfo) -> None:
        self.name = (
            broker.broker_name if broker.is_master else f"{broker.broker_name}:{broker.broker_id}"
        )
        self._admin = admin
        self._address = broker.address

    async def accounts(self) -> BrokerAccounts:
        try:
            return await self._admin.broker_accounts(self._address)
        except RequestRefused as refused:
            if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise Failed(
                f"broker {self.name} does not support these accounts; Apache 5.x has users: see"
                " roquet account user list"
            ) from None
        except Unreachable:
            # Without access control, a broker of 4.9 fails and answers nothing.
            if (await self._admin.broker_config(self._address)).get(_SWITCH) != "false":
                raise
            raise Failed(f"access control is off at broker {self.name}: see {_SWITCH}") from None

    async def has(self, access_key: str) -> bool:
        return access_key in (await self.accounts()).accounts

    async def put(self, access_key: str, settings: AccountSettings, secret_key: str | None) -> None:
        try:
            await self._admin.put_account(
                self._address, access_key, settings, secret_key=secret_key
            )
        except RequestRefused as refused:
            if _NO_RIGHTS_REFUSED not in (refused.remark or ""):
                raise
            raise Failed(
                f"broker {self.name} cannot remove the last permission of an account, as no Apache"
                " broker can; deny it with NAME=DENY"
            ) from None

    async def remove(self, access_key: str) -> None:
        try:
            await self._admin.delete_account(self._address, access_key)
        except RequestRefused as refused:
            is_unknown = refused.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
            if not is_unknown or not await self._is_gone(access_key):
                raise

    async def _is_gone(self, access_key: str) -> bool:
        """Whether another broker has removed it from a file that both of them read."""
        for _ in range(_SHARED_FILE_LOOKS):
            if not await self.has(access_key):
                return True
            await asyncio.sleep(_SHARED_FILE_LOOK_PERIOD_S)
        return False
