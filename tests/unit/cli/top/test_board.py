"""What is looked at, and what a key makes of it."""

from roquet.cli.top.board import Board, TopKey, TopView
from roquet.cli.top.samples import Sample
from roquet.cli.top.screen import after_press, presses_in
from roquet.client.admin.topics import QueueStatistics, TopicStatistics
from roquet.client.queue_ref import QueueRef
from roquet.reporting import ReportTable


def sample(time_s: float, **ends: int) -> Sample:
    topics = {
        topic: TopicStatistics(topic, (QueueStatistics(QueueRef(topic, "a", 0), 0, end, None),))
        for topic, end in ends.items()
    }
    return Sample(time_s, (), topics, {})


BEFORE, NOW = sample(10.0, beta=10, alpha=0), sample(12.0, beta=30, alpha=2, new=5)


def names(table: ReportTable) -> list[object]:
    return [row[0] for row in table.rows]


def pressed(board: Board, *keys: TopKey) -> Board:
    for key in keys:
        board = board.after(key, board.table(BEFORE, NOW))
    return board


TOPICS = Board(TopView.TOPICS, sort_by=0)


def test_rates_are_differences() -> None:
    table = TOPICS.table(BEFORE, NOW)
    assert {row[0]: row[1] for row in table.rows} == {"alpha": 1.0, "beta": 10.0, "new": None}
    assert {row[1] for row in TOPICS.table(None, NOW).rows} == {None}


def test_a_count_that_went_back_has_no_rate() -> None:
    table = TOPICS.table(sample(1.0, alpha=9), sample(2.0, alpha=1))
    assert table.rows[0][1] is None


def test_names_are_sorted_from_the_first_and_numbers_from_the_largest() -> None:
    assert names(TOPICS.table(BEFORE, NOW)) == ["alpha", "beta", "new"]
    by_rate = pressed(TOPICS, TopKey.SORT)
    assert names(by_rate.table(BEFORE, NOW)) == ["beta", "alpha", "new"]
    turned = pressed(by_rate, TopKey.REVERSE)
    assert names(turned.table(BEFORE, NOW)) == ["alpha", "beta", "new"]


def test_the_worst_comes_first() -> None:
    board = Board(TopView.TOPICS)
    assert names(board.table(BEFORE, NOW)) == ["beta", "alpha", "new"]
    assert [
        Board(view).table(BEFORE, NOW).columns[Board(view).sort_column] for view in TopView
    ] == [
        "rate",
        "lag",
        "problem",
    ]


def test_the_sort_column_goes_round() -> None:
    assert pressed(TOPICS, *[TopKey.SORT] * 5).sort_column == 0


def test_a_row_is_chosen_within_the_table() -> None:
    assert pressed(TOPICS, TopKey.UP).row == 0
    assert pressed(TOPICS, *[TopKey.DOWN] * 9).row == 2
    assert pressed(TOPICS, TopKey.DOWN, TopKey.DOWN, TopKey.UP).row == 1


def test_a_row_is_opened_and_left_again() -> None:
    opened = pressed(TOPICS, TopKey.DOWN, TopKey.OPEN)
    assert opened.opened == "beta"
    table = opened.table(BEFORE, NOW)
    assert table.name == "queues of beta"
    assert table.rows == [("a", 0, 0, 30, 30, None)]
    assert pressed(opened, TopKey.OPEN) == opened
    assert pressed(opened, TopKey.BACK).opened is None


def test_nothing_is_opened_where_nothing_is() -> None:
    assert pressed(Board(TopView.GROUPS), TopKey.OPEN).opened is None


def test_keys_choose_the_table_and_pause_and_end() -> None:
    assert pressed(TOPICS, TopKey.GROUPS).view is TopView.GROUPS
    assert pressed(TOPICS, TopKey.BROKERS).view is TopView.BROKERS
    assert pressed(TOPICS, TopKey.PAUSE, TopKey.GROUPS).is_paused
    assert pressed(TOPICS, TopKey.END).is_ended


def test_keys_are_what_terminals_send() -> None:
    sent = b"t\x1b[Aj\x1bOB\r\x1b"
    assert [*presses_in(sent)] == [b"t", b"\x1b[A", b"j", b"\x1bOB", b"\r", b"\x1b"]
    assert typed(TOPICS, b"j\x1bOB").row == 2
    assert typed(TOPICS, b"j\x1b[A").row == 0
    assert typed(TOPICS, b"xq") == pressed(TOPICS, TopKey.END)


def typed(board: Board, sent: bytes) -> Board:
    for press in presses_in(sent):
        board = after_press(board, press, board.table(BEFORE, NOW))
    return board


def test_a_filter_is_typed_and_kept_until_it_is_dropped() -> None:
    typing = typed(TOPICS, b"j/eq")
    # What is typed is no key.
    assert (typing.filter, typing.is_typing, typing.is_ended, typing.row) == ("eq", True, False, 0)
    assert names(typing.table(BEFORE, NOW)) == []
    kept = typed(typing, b"\x7f\r")
    assert names(kept.table(BEFORE, NOW)) == ["beta", "new"]
    opened = typed(kept, b"\r")
    assert opened.opened == "beta"
    assert names(typed(opened, b"\x1b").table(BEFORE, NOW)) == ["beta", "new"]
    assert names(typed(kept, b"\x1b").table(BEFORE, NOW)) == ["beta", "alpha", "new"]
    assert typed(TOPICS, b"/e\x1b") == TOPICS


def test_a_broker_that_is_missed_or_back_makes_no_rate() -> None:
    def both(time_s: float, *ends: tuple[str, int]) -> Sample:
        queues = tuple(
            QueueStatistics(QueueRef("t", broker, 0), 0, end, None) for broker, end in ends
        )
        return Sample(time_s, (), {"t": TopicStatistics("t", queues)}, {})

    whole, part = both(1.0, ("a", 10), ("b", 100)), both(2.0, ("a", 14))
    assert TOPICS.table(whole, part).rows[0][1] == 4.0
    assert TOPICS.table(part, both(3.0, ("a", 15), ("b", 200))).rows[0][1] == 1.0
