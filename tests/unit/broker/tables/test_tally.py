from roquet.broker.tables.tally import PathCounts, Tally


def test_a_tally_adds_up_messages_bytes_and_times() -> None:
    tally = Tally()
    tally.add(32, 4_000)
    tally.add(1, 100)
    assert (tally.count, tally.size, tally.times) == (33, 4_100, 2)


def test_the_share_of_the_fast_path_is_that_of_all_requests() -> None:
    paths = PathCounts()
    assert paths.share == 0
    paths.fast += 3
    paths.slow += 1
    assert paths.share == 0.75
