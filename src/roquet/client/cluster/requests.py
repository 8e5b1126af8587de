"""Requests as a client sends them: signed, if it has credentials."""

from typing import Final, final

import msgspec

from roquet.client.config import Credentials
from roquet.net.peers import Peers
from roquet.protocol.acl_signature import ACCESS_KEY, SIGNATURE, sign, signed_bytes
from roquet.protocol.codes import VERSION_OURS, RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of, fields_text, header_texts

_SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105  The name of a field.


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
    texts = header_texts(header)
    texts[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        texts[_SECURITY_TOKEN] = credentials.security_token
    texts[SIGNATURE] = sign(signed_bytes(texts, body, VERSION_OURS), credentials.secret_key)
    return fields_text(texts)
