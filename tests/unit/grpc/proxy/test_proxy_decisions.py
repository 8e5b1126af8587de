"""Decisions of a proxy: where a message goes, which broker is asked, what a refusal means."""

import pytest

from roquet.client.cluster.routes import Route
from roquet.client.errors import (
    ClientError,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.client.queue_ref import QueueRef
from roquet.grpc.codes import Code, RefusedCall
from roquet.grpc.proxy.cluster import queues_of, refusal_of
from roquet.grpc.proxy.receiving import Handle, broker_for
from roquet.grpc.proxy.sending import TransactionPlace, queue_candidates
from roquet.grpc.receives import receive_options
from roquet.grpc.route_form import BrokerQueues
from roquet.net.errors import CallTimedOut, ConnectFailed, NetError, TooManyInFlight
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.pop_receipt import Receipt
from tests.support.grpc_requests import message, receive_request

A0, A1 = (QueueRef("normal", "a", index) for index in range(2))
B0, B1 = (QueueRef("normal", "b", index) for index in range(2))
ROUTE = Route((A0, A1, B0, B1), {"a": "h:1", "b": "h:2"}, (A0, A1, B0, B1))


def test_a_message_goes_to_the_next_queue_and_else_to_another_broker() -> None:
    assert queue_candidates(ROUTE, [message()], 1) == [A1, B1]
    assert queue_candidates(ROUTE, [message()], 6) == [B0, A1]


def test_a_message_group_has_one_queue() -> None:
    given = message("fifo", message_group="g")
    found = {tuple(queue_candidates(ROUTE, [given], turn)) for turn in range(8)}
    assert len(found) == 1
    assert len(found.pop()) == 1


def test_a_receive_goes_to_the_broker_that_it_names_or_to_the_next_one() -> None:
    request = receive_request()
    assert [broker_for(ROUTE, receive_options(request), turn) for turn in range(3)] == [
        "a",
        "b",
        "a",
    ]
    request.message_queue.broker.name = "b"
    assert broker_for(ROUTE, receive_options(request), 0) == "b"
    request.message_queue.broker.name = "gone"
    assert broker_for(ROUTE, receive_options(request), 0) == "a"


def test_a_topic_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(RefusedCall) as caught:
        broker_for(Route((A0,), {"a": "h:1"}), receive_options(receive_request()), 0)
    assert caught.value.status is Code.FORBIDDEN


def test_queues_are_counted_by_broker() -> None:
    route = Route((A0,), {"a": "h:1", "b": "h:2"}, (A0, A1, B0))
    assert queues_of(route) == [BrokerQueues("a", 2, 1), BrokerQueues("b", 1, 0)]


def unreachable(cause: NetError) -> Unreachable:
    error = Unreachable("broker-a", str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TopicNotFound("t", "gone"), Code.TOPIC_NOT_FOUND),
        (TopicNotFound("t", "its broker is away", is_missing=False), Code.INTERNAL_SERVER_ERROR),
        (NoNameServer(["closed"]), Code.INTERNAL_SERVER_ERROR),
        (CallTimedOut("h:1", 310, 3.0), Code.PROXY_TIMEOUT),
        (unreachable(CallTimedOut("h:1", 200050, 3.0)), Code.PROXY_TIMEOUT),
        (unreachable(ConnectFailed("h:1", "refused")), Code.INTERNAL_SERVER_ERROR),
        (TooManyInFlight("h:1", 10), Code.TOO_MANY_REQUESTS),
        (RequestRefused("h:1", ResponseCode.SYSTEM_BUSY, "busy"), Code.TOO_MANY_REQUESTS),
        (RequestRefused("h:1", ResponseCode.TOPIC_NOT_EXIST, "none"), Code.TOPIC_NOT_FOUND),
        (RequestRefused("h:1", 3, " request type 200050 not supported"), Code.NOT_IMPLEMENTED),
        (RequestRefused("h:1", 1, "Check signature failed"), Code.UNAUTHORIZED),
        (RequestRefused("h:1", 4711, None), Code.INTERNAL_SERVER_ERROR),
    ],
)
def test_what_a_cluster_refuses_is_a_status(error: ClientError | NetError, code: Code) -> None:
    assert refusal_of(error).status is code


def test_a_transaction_id_says_where_the_half_message_is() -> None:
    place = TransactionPlace(1 << 40, 7, "broker-a")
    assert TransactionPlace.read(place.text) == place


@pytest.mark.parametrize("text", ["", "0000000000000001", "g" * 32 + "@a", "0" * 32 + "@"])
def test_another_transaction_id_is_refused(text: str) -> None:
    with pytest.raises(RefusedCall) as caught:
        TransactionPlace.read(text)
    assert caught.value.status is Code.INVALID_TRANSACTION_ID


def test_a_handle_is_a_receipt_and_a_place_in_the_log() -> None:
    # As Apache's proxy makes them.
    text = "0 1794934695286 10000 6 1 broker-a 1 0 46675987"
    handle = Handle.read(text)
    assert handle == Handle(Receipt(0, 1794934695286, 10000, 6, "1", "broker-a", 1, 0), 46675987)
    assert handle.text == text
    receipt = handle.pop_receipt("g", "t")
    assert (receipt.text, receipt.topic) == (text.rpartition(" ")[0], "%RETRY%g_t")


@pytest.mark.parametrize(
    "text", ["", "nonsense", "0 1 10000 6 0 broker-a 1 0", "1 2 3 4 5 6 7 8 x"]
)
def test_another_handle_is_refused(text: str) -> None:
    with pytest.raises(RefusedCall) as caught:
        Handle.read(text)
    assert caught.value.status is Code.INVALID_RECEIPT_HANDLE
