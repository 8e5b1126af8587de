"""Requests as a client sends them: signed, if it has credentials."""

from typing import final

import msgspec

from roquet.client.config import Credentials
from roquet.net.peers import Peers
from roquet.protocol import acl
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of


@final
class Requests:
    """All calls of one client; replies come back whatever their code."""

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
        """The request as it is sent, by whatever connection."""
        if self._credentials is None:
            return Command(code, fields=fields_of(header), body=body)
        return Command(code, fields=signed_fields(header, body, self._credentials), body=body)


def signed_fields(header: Header, body: bytes, credentials: Credentials) -> msgspec.Raw:
    """The fields of a request with the proof of who sends it."""
    return acl.signed_fields(
        header, body, credentials.access_key, credentials.secret_key, credentials.security_token
    )
