"""Counts, and what they say of the last minute."""

from roquet.client.push.statistics import Counting, TopicCounts, TopicRates, rates_of


def test_rates_are_of_the_time_between_two_counts() -> None:
    before = TopicCounts(1, 1.0, 10, 5, 1.0, 8, 2)
    after = TopicCounts(3, 2.0, 110, 15, 6.0, 88, 22)
    assert rates_of(before, after, 10.0) == TopicRates(10.0, 8.0, 2.0, 0.5, 0.5)


def test_nothing_is_not_divided() -> None:
    assert rates_of(TopicCounts(), TopicCounts(), 0.0) == TopicRates()


def test_the_oldest_sample_is_a_minute_old() -> None:
    counting = Counting()
    assert counting.rates(0.0) == {}
    for second in range(0, 200, 10):
        counting.topics["t"].done_count = second
        counting.sample(float(second))
    counting.topics["t"].done_count = 200 + 60
    # The samples are of 130 to 190 seconds.
    assert counting.rates(200.0)["t"].done == (260 - 130) / 70


def test_a_topic_that_is_new_begins_at_zero() -> None:
    counting = Counting()
    counting.sample(0.0)
    counting.topics["t"].pulled_count = 30
    assert counting.rates(10.0)["t"].pulled == 3.0


def test_counts_are_a_copy() -> None:
    counting = Counting()
    counts = counting.topics["t"]
    copy = counting.counts()
    counts.done_count = 7
    assert copy == {"t": TopicCounts()}
