"""The table of all handlers."""

from roquet.broker.handlers import ROUTES
from roquet.protocol.catalog import CATALOG


def test_every_handler_takes_the_header_that_the_catalog_names() -> None:
    assert {each.code: each.header for each in ROUTES} == {
        each.code: CATALOG[each.code].header for each in ROUTES
    }


def test_no_request_has_two_handlers() -> None:
    assert len({each.code for each in ROUTES}) == len(ROUTES)
