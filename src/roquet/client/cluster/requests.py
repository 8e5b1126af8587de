"""Requests as a client sends them: signed, if it has credentials; on the fast port, if it wants to.

The fast port is where a broker takes sends apart from pulls: Java's "VIP channel". It is two below
the one that name servers know; peers compute one from the other.
"""

from typing import Final, final

import msgspec

from roquet.client.config import Credentials
from roquet.net.addresses import split_address
from roquet.net.errors import BadAddress
from roquet.net.peers import Peers
from roquet.protocol import acl
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of

_DISTANCE: Final = -2


@final
class Requests:
    """All calls of one client; replies are returned whatever their code."""

    __slots__ = ("_credentials", "is_signed", "peers")

    def __init__(self, peers: Peers, credentials: Credentials | None) -> None:
        self.peers = peers
        self.is_signed = credentials is not None
        self._credentials = credentials

    async def call(
        self, address: str, code: RequestCode, header: Header, timeout_s: float, body: bytes = b""
    ) -> Command:
        """Raises NetError."""
        return await self.peers.call(address, self.command(code, header, body), timeout_s)

    async def call_oneway(
        self, address: str, code: RequestCode, header: Header, timeout_s: float, body: bytes = b""
    ) -> None:
        """Returns when the request is on its way. Raises NetError."""
        await self.peers.call_oneway(address, self.command(code, header, body), timeout_s)

    def command(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        """The request as it is sent, on any connection."""
        if self._credentials is None:
            return Command(code, fields=fields_of(header), body=body)
        return Command(code, fields=signed_fields(header, body, self._credentials), body=body)


def signed_fields(header: Header, body: bytes, credentials: Credentials) -> msgspec.Raw:
    """The fields of a request with its signature."""
    return acl.signed_fields(
        header, body, credentials.access_key, credentials.secret_key, credentials.security_token
    )


def fast_address(address: str) -> str:
    """An invalid address stays as it is; the call to it fails."""
    try:
        _, port = split_address(address)
    except BadAddress:
        return address
    return f"{address.strip().rpartition(':')[0]}:{port + _DISTANCE}"
