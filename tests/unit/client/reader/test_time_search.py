"""The first offset that is late, from any guess."""

import pytest

from roquet.client.reader.time_search import first_late


@pytest.mark.parametrize("low", [0, 5])
async def test_it_is_found_from_every_guess_with_few_looks(low: int) -> None:
    high = low + 40
    for wanted in range(low, high + 1):
        for guess in range(low, high):
            looks: list[int] = []

            async def is_late(offset: int, wanted: int = wanted, looks: list[int] = looks) -> bool:
                assert low <= offset < high
                looks.append(offset)
                return offset >= wanted

            assert await first_late(is_late, low, high, guess) == wanted
            # Neighbours of the guess are looked at first.
            assert len(looks) <= 2 + 2 * abs(guess - wanted).bit_length()
