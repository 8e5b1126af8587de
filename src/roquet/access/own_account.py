"""Who a server is to other servers: what it signs its own requests with."""

from typing import final

import msgspec

from roquet.protocol.acl_signature import signed_fields
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of


@final
class OwnAccount(msgspec.Struct, frozen=True, rename="camel"):
    """As Apache 5.x writes it: {"accessKey":"broker-a","secretKey":"..."}."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"OwnAccount({self.access_key!r})"


def read_own_account(text: str) -> OwnAccount:
    """Raises ValueError, which does not tell the text."""
    try:
        return msgspec.json.decode(text.encode(), type=OwnAccount)
    except msgspec.DecodeError:
        raise ValueError("no credentials") from None


def request_of(
    account: OwnAccount | None, code: RequestCode, header: Header, body: bytes = b""
) -> Command:
    """A request to another server; signed, if we have an account."""
    if account is None:
        return Command(code, fields=fields_of(header), body=body)
    fields = signed_fields(
        header, body, account.access_key, account.secret_key, account.security_token
    )
    return Command(code, fields=fields, body=body)
