"""Who may log in: users of a password file, or administrators among the cluster's accounts.

A line of the file, as `roquet dashboard --new-password NAME` prints it:

    NAME:scrypt:15:8:1:SALT:HASH    the logarithm of the cost, block size, parallelism; base64
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from pathlib import Path
from typing import Final, NamedTuple, Protocol, final

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.servers import AdminOptions
from roquet.client.config import Credentials
from roquet.client.errors import ClientError, RequestRefused
from roquet.dashboard.errors import BadPasswordFile

_COST_LOG: Final = 15
_COST_LOG_MAX: Final = 20
_BLOCK_SIZE: Final = 8
_PARALLEL: Final = 1
_SALT_SIZE: Final = 16
_HASH_SIZE: Final = 32
_PASSWORD_SIZE_MAX: Final = 1024


class Login(Protocol):
    async def is_right(self, user: str, password: str) -> bool: ...


class _Scrypt(NamedTuple):
    cost_log: int
    block_size: int
    parallel: int
    salt: bytes
    hash: bytes

    def matches(self, password: str) -> bool:
        return hmac.compare_digest(self.hash, _hashed(password, self))


def _hashed(password: str, how: _Scrypt) -> bytes:
    return hashlib.scrypt(
        password.encode(errors="replace"),
        salt=how.salt,
        n=1 << how.cost_log,
        r=how.block_size,
        p=how.parallel,
        maxmem=256 * how.block_size << how.cost_log,
        dklen=_HASH_SIZE,
    )


def password_line(user: str, password: str) -> str:
    """Raises BadPasswordFile for a name that a line cannot have."""
    if not user or ":" in user or not user.isprintable():
        raise BadPasswordFile(f"{user!r} cannot be a user name: it is empty or has a colon")
    how = _Scrypt(_COST_LOG, _BLOCK_SIZE, _PARALLEL, os.urandom(_SALT_SIZE), b"")
    salt, digest = (base64.b64encode(each).decode() for each in (how.salt, _hashed(password, how)))
    return f"{user}:scrypt:{_COST_LOG}:{_BLOCK_SIZE}:{_PARALLEL}:{salt}:{digest}"


@final
class PasswordFile:
    """Read once, at the start."""

    def __init__(self, path: Path) -> None:
        """Raises BadPasswordFile."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadPasswordFile(f"{path} cannot be read: {error}", path) from None
        self._users = dict(
            _user(path, number, line) for number, line in enumerate(lines, 1) if line.strip()
        )
        if not self._users:
            remedy = "add the line that roquet dashboard --new-password NAME prints"
            raise BadPasswordFile(f"{path} has no user: {remedy}", path)
        # An unknown user takes as long as a wrong password, or names could be guessed.
        self._nobody = next(iter(self._users.values()))

    async def is_right(self, user: str, password: str) -> bool:
        if len(password) > _PASSWORD_SIZE_MAX:
            return False
        found = self._users.get(user)
        matches = await asyncio.to_thread((found or self._nobody).matches, password)
        return matches and found is not None


def _user(path: Path, number: int, line: str) -> tuple[str, _Scrypt]:
    try:
        user, kind, *costs, salt, digest = line.strip().split(":")
        cost_log, block_size, parallel = map(int, costs)
        found = _Scrypt(
            cost_log,
            block_size,
            parallel,
            base64.b64decode(salt, validate=True),
            base64.b64decode(digest, validate=True),
        )
    except (ValueError, binascii.Error):
        reason = f"{path}:{number}: expected NAME:scrypt:15:8:1:SALT:HASH"
        raise BadPasswordFile(reason, path, number) from None
    is_usable = (
        kind == "scrypt"
        and 1 <= cost_log <= _COST_LOG_MAX
        and 1 <= block_size <= 32
        and 1 <= parallel <= 16
        and len(found.hash) == _HASH_SIZE
    )
    if not user or not is_usable:
        reason = f"{path}:{number}: not a line that --new-password has printed"
        raise BadPasswordFile(reason, path, number)
    return user, found


@final
class ClusterAccounts:
    """Accounts of access control that are administrators: only they may read all of this."""

    def __init__(self, name_server: str | None, options: AdminOptions) -> None:
        self._name_server = name_server
        self._options = options

    async def is_right(self, user: str, password: str) -> bool:
        """A request that only administrators may make decides. Raises ClientError."""
        options: AdminOptions = {**self._options, "credentials": Credentials(user, password)}
        async with AsyncAdmin(self._name_server, **options) as admin:
            try:
                masters = [each for each in await admin.brokers(with_state=False) if each.is_master]
                if not masters:
                    raise ClientError("no master is registered, so no account can be checked")
                await admin.broker_accounts(masters[0].address)
            except RequestRefused:
                return False
        return True
