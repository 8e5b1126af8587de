"""Counts, and what they say of the last minute."""

from roquet.client.push.statistics import ConsumerCounters, TopicCounts, TopicRates, rates_of


def test_rates_are_of_the_time_between_two_counts() -> None:
    before = TopicCounts(1, 1.0, 10, 5, 1.0, 8, 2)
    after = TopicCounts(3, 2.0, 110, 15, 6.0, 88, 22)
    assert rates_of(before, after, 10.0) == TopicRates(10.0, 8.0, 2.0, 0.5, 0.5)


def test_nothing_is_not_divided() -> None:
    assert rates_of(TopicCounts(), TopicCounts(), 0.0) == TopicRates()


def test_the_oldest_sample_is_a_minute_old() -> None:
    counters = ConsumerCounters()
    assert counters.rates(0.0) == {}
    for second in range(0, 200, 10):
        counters.topics["t"].done_count = second
        counters.sample(float(second))
    counters.topics["t"].done_count = 200 + 60
    # The samples are of 130 to 190 seconds.
    assert counters.rates(200.0)["t"].done == (260 - 130) / 70


def test_a_topic_that_is_new_starts_at_zero() -> None:
    counters = ConsumerCounters()
    counters.sample(0.0)
    counters.topics["t"].pulled_count = 30
    assert counters.rates(10.0)["t"].pulled == 3.0


def test_counts_are_a_copy() -> None:
    counters = ConsumerCounters()
    counts = counters.topics["t"]
    copy = counters.counts()
    counts.done_count = 7
    assert copy == {"t": TopicCounts()}
