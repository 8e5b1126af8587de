from roquet.broker.tables.tally import Tally, Ways


def test_a_tally_adds_up_messages_bytes_and_times() -> None:
    tally = Tally()
    tally.add(32, 4_000)
    tally.add(1, 100)
    assert (tally.count, tally.size, tally.times) == (33, 4_100, 2)


def test_the_share_of_the_lane_is_that_of_all_requests() -> None:
    ways = Ways()
    assert ways.share == 0
    ways.plain += 3
    ways.ordinary += 1
    assert ways.share == 0.75
