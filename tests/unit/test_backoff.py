from roquet.backoff import Backoff


def test_pauses_double_up_to_the_maximum() -> None:
    backoff = Backoff(first_s=1.0, max_s=5.0)
    assert [backoff.next_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_success_starts_again_from_the_first_pause() -> None:
    backoff = Backoff(first_s=1.0, max_s=5.0)
    backoff.next_s()
    backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == 1.0
