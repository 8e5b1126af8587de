"""Bytes as an attacker or a broken disk makes them: noise, or real ones with something wrong."""

from collections.abc import Callable, Sequence
from random import Random

# Mostly one: a second mistake is seldom reached behind the first.
_MISTAKE_COUNTS = (1, 1, 1, 2, 4)
_NOISE_SIZE_MAX = 300
_INSERT_SIZE_MAX = 20

# Numbers that sizes and counts are compared with, or that overflow when something is added.
_NUMBERS = (0, 1, -1, 7, 8, 127, 128, 255, 32767, -32768, 65535, 2**31 - 1, -(2**31), 2**63 - 1)
_SIZES = (1, 2, 4, 8)


def hostile_bytes(random: Random, seeds: Sequence[bytes]) -> bytes:
    """One of `seeds` with a few mistakes in it; now and then nothing but noise."""
    if random.random() < 0.1:
        return random.randbytes(random.randrange(_NOISE_SIZE_MAX))
    data = bytearray(random.choice(seeds))
    for _ in range(random.choice(_MISTAKE_COUNTS)):
        random.choice(_MISTAKES)(random, data, seeds)
    return bytes(data)


def _flip_a_bit(random: Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _overwrite_a_number(random: Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    size = random.choice(_SIZES)
    position = random.randrange(len(data) + 1)
    number = random.choice(_NUMBERS) % (1 << 8 * size)
    # Never longer than before, so that the rest stays where it was.
    data[position : position + size] = number.to_bytes(size)[: len(data) - position]


def _cut_the_end(random: Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    del data[random.randrange(len(data) + 1) :]


def _lose_some(random: Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    start = random.randrange(len(data) + 1)
    del data[start : start + random.randrange(_INSERT_SIZE_MAX)]


def _repeat_some(random: Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    start = random.randrange(len(data) + 1)
    piece = data[start : start + random.randrange(_INSERT_SIZE_MAX)]
    data[start:start] = piece * random.randrange(1, 100)


def _insert_noise(random: Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    start = random.randrange(len(data) + 1)
    data[start:start] = random.randbytes(random.randrange(_INSERT_SIZE_MAX))


def _go_on_as_another(random: Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = random.choice(seeds)
    data[random.randrange(len(data) + 1) :] = other[random.randrange(len(other) + 1) :]


_MISTAKES: Sequence[Callable[[Random, bytearray, Sequence[bytes]], None]] = (
    _flip_a_bit,
    _overwrite_a_number,
    _cut_the_end,
    _lose_some,
    _repeat_some,
    _insert_noise,
    _go_on_as_another,
)
