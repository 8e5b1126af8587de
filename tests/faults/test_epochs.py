"""The judge of epochs sees two masters in one."""

from roquet.protocol.host import pack_host
from roquet.protocol.messages.message_id import offset_id
from tests.faults.epochs import Acknowledging, Epochs, not_by_their_masters

A, B = "10.0.0.1:1000", "10.0.0.2:1000"
STARTS = [(3, 0, "author-a"), (7, 500, "author-b")]
EPOCHS = {A: Epochs("author-a", STARTS), B: Epochs("author-b", STARTS)}


def test_masters_in_turn_are_fine() -> None:
    acknowledgements = [
        Acknowledging(A, 0, b"1"),
        Acknowledging(A, 499, b"2"),
        Acknowledging(B, 500, b"3"),
    ]
    assert list(not_by_their_masters(acknowledgements, EPOCHS)) == []


def test_one_that_acknowledges_in_the_epoch_of_another_is_seen() -> None:
    (violation,) = not_by_their_masters([Acknowledging(A, 500, b"late")], EPOCHS)
    assert violation.startswith("E1")
    assert "late" in violation


def test_what_was_acknowledged_before_all_epochs_is_seen() -> None:
    epochs = {A: Epochs("author-a", STARTS[1:])}
    assert len(list(not_by_their_masters([Acknowledging(A, 0, b"early")], epochs))) == 1


def test_brokers_that_remember_different_masters_are_seen() -> None:
    other = EPOCHS | {B: Epochs("author-b", [(3, 0, "author-b")])}
    (violation,) = not_by_their_masters([], other)
    assert "different epochs" in violation


def test_an_offset_id_names_the_broker_that_acknowledged() -> None:
    text = offset_id(pack_host("10.0.0.1", 1000), 77)
    assert Acknowledging.of(text, b"body") == Acknowledging(A, 77, b"body")
