"""What a server signs its own requests with."""

import pytest

from roquet.access.own_account import OwnAccount, read_own_account, request_of
from roquet.protocol.acl_signature import has_valid_signature
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.name_server import GetRouteHeader

ACCOUNT = OwnAccount("broker-a", "12345678")


def test_it_is_read_as_apache_writes_it_and_never_shown() -> None:
    text = '{"accessKey":"broker-a","secretKey":"12345678"}'
    assert read_own_account(text) == ACCOUNT
    assert "12345678" not in repr(ACCOUNT)


@pytest.mark.parametrize("text", ["", "broker-a", "{}", '{"accessKey":"a"}', "[1,2]"])
def test_anything_else_is_refused_without_being_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no credentials$"):
        read_own_account(text)


def test_requests_are_signed_if_there_is_an_account() -> None:
    header = GetRouteHeader(topic="orders")
    plain = request_of(None, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    assert field_texts(plain.fields)["topic"] == "orders"
    assert "Signature" not in field_texts(plain.fields)
    signed = request_of(ACCOUNT, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, b"body")
    fields = field_texts(signed.fields)
    assert has_valid_signature(fields, b"body", signed.version, ACCOUNT.secret_key)
