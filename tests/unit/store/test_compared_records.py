"""What it remembers is seen by what is not looked at again: `reading/test_gathering.py`."""

from roquet.store.compared_records import ComparedRecords
from tests.unit.store.reading.test_gathering import Stored, gathered


def test_it_forgets_when_it_is_told_to() -> None:
    stored, compared = Stored(), ComparedRecords()
    assert gathered(stored, compared=compared).count == 3
    stored.damage(1)
    assert gathered(stored, compared=compared).count == 3
    compared.forget()
    assert gathered(stored, compared=compared).count == 1


def test_one_that_lies_far_off_in_the_same_slot_is_not_taken_for_it() -> None:
    stored, compared = Stored(), ComparedRecords()
    assert gathered(stored, compared=compared).count == 3
    stored.damage(0)
    # The slots come round again after two megabytes.
    assert gathered(stored.moved(1 << 21), compared=compared).count == 0
