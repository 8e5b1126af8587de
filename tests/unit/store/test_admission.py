import pytest

from roquet.store.appends import AppendAdmission
from roquet.store.errors import DiskFull, StoreClosed, SyncFailed, TooManyFiles
from tests.support.fake_clock import FakeClock
from tests.support.raising import raises

NO_SPACE = OSError(28, "No space left on device")
FAILURE = SyncFailed("the disk did not take it")


class Bed:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.failure: SyncFailed | None = None
        self.admission = AppendAdmission(self.clock, lambda: self.failure)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_messages_are_taken_as_long_as_nothing_is_wrong(bed: Bed) -> None:
    assert bed.admission.refusal is None
    bed.admission.check()


def test_a_full_disk_is_tried_again_after_a_while(bed: Bed) -> None:
    assert isinstance(bed.admission.refused(NO_SPACE), DiskFull)
    with raises(DiskFull, used_percent=None):
        bed.admission.check()
    bed.clock.advance(0.9)
    with pytest.raises(DiskFull):
        bed.admission.check()
    bed.clock.advance(0.1)
    bed.admission.check()
    assert bed.admission.refusal is None


def test_other_errors_cost_one_message(bed: Bed) -> None:
    refusal = bed.admission.refused(OSError(24, "Too many open files"))
    assert type(refusal) is TooManyFiles
    assert bed.admission.refusal is None


def test_a_disk_in_use_is_not_tried_until_it_is_free(bed: Bed) -> None:
    bed.admission.set_disk_full(93)
    bed.clock.advance(1e6)
    with raises(DiskFull, used_percent=93):
        bed.admission.check()
    bed.admission.set_disk_free()
    bed.admission.check()


def test_a_free_disk_does_not_shorten_the_pause_of_a_full_one(bed: Bed) -> None:
    bed.admission.refused(NO_SPACE)
    bed.admission.set_disk_free()
    with pytest.raises(DiskFull):
        bed.admission.check()


def test_a_failed_sync_is_for_good(bed: Bed) -> None:
    bed.admission.fail(FAILURE)
    bed.admission.set_disk_full(93)
    bed.admission.set_disk_free()
    bed.clock.advance(1e6)
    with pytest.raises(SyncFailed):
        bed.admission.check()


def test_a_sync_that_fails_while_the_disk_is_full_is_not_forgotten(bed: Bed) -> None:
    bed.failure = FAILURE
    bed.admission.fail(FAILURE)
    bed.admission.refused(NO_SPACE)
    bed.clock.advance(1)
    with pytest.raises(SyncFailed):
        bed.admission.check()


def test_a_refusal_is_a_new_error_every_time(bed: Bed) -> None:
    bed.admission.close()
    assert bed.admission.is_closed
    errors = []
    for _ in range(2):
        with pytest.raises(StoreClosed) as caught:
            bed.admission.check()
        errors.append(caught.value)
    assert errors[0] is not errors[1]
