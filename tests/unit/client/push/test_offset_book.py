"""The book of unfinished messages: what may be committed, and how much is on hand."""

from typing import NamedTuple

from roquet.client.push.offset_book import OffsetBook


class Sized(NamedTuple):
    queue_offset: int
    size: int


def book_of(*offsets: int) -> OffsetBook:
    book = OffsetBook(start=5)
    for offset in offsets:
        message = Sized(offset, 100)
        assert book.add_all([message]) == [message]
    return book


def test_a_new_book_commits_where_the_reading_started() -> None:
    book = OffsetBook(start=5)
    assert book.commit_offset == 5
    assert (book.count, book.size, book.span) == (0, 0, 0)


def test_a_commit_does_not_pass_what_is_unfinished() -> None:
    book = book_of(5, 6, 7, 10, 11)
    book.finish(5)
    book.finish_all([10, 7])
    assert book.commit_offset == 6


def test_when_all_are_finished_the_commit_is_behind_the_last() -> None:
    book = book_of(5, 6, 10)
    book.finish_all([10, 6, 5])
    assert book.commit_offset == 11


def test_what_the_broker_filtered_out_is_committed_too() -> None:
    book = book_of(5)
    book.skip_to(40)
    assert book.commit_offset == 5
    book.finish(5)
    assert book.commit_offset == 40


def test_the_reading_is_never_set_back() -> None:
    book = book_of(5, 6)
    book.skip_to(3)
    assert book.next_offset == 7


def test_a_message_that_was_there_before_is_not_new() -> None:
    book = book_of(5, 6)
    book.finish(5)
    assert book.add_all([Sized(5, 100), Sized(6, 100)]) == []
    assert (book.count, book.size, book.commit_offset) == (1, 100, 6)


def test_finishing_twice_counts_once() -> None:
    book = book_of(5, 6)
    book.finish_all([6, 6, 99])
    book.finish(6)
    assert (book.count, book.size) == (1, 100)


def test_the_span_reaches_from_the_first_unfinished_to_the_last() -> None:
    book = book_of(5, 6, 7, 10, 11)
    assert book.span == 6
    book.finish_all([5, 11])
    assert book.span == 4


def test_a_book_takes_as_many_as_come_while_the_first_is_unfinished() -> None:
    offsets = range(5, 10_005)
    book = book_of(*offsets)
    book.finish_all(reversed(offsets[1:]))
    assert (book.count, book.size, book.span, book.commit_offset) == (1, 100, 0, 5)
    book.finish(5)
    assert (book.count, book.size, book.commit_offset) == (0, 0, 10_005)


def test_a_book_that_is_finished_as_it_goes_never_loses_its_place() -> None:
    book = OffsetBook(start=0)
    for offset in range(10_000):
        book.add_all([Sized(offset, 1)])
        book.finish(offset - 100)
    assert (book.count, book.size, book.span, book.commit_offset) == (100, 100, 99, 9_900)
