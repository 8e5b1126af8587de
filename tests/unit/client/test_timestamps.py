"""Moments and milliseconds: neither way loses or adds one."""

from datetime import timedelta

from hypothesis import given, strategies as st

from roquet.client.timestamps import timestamp_ms, utc


@given(st.integers(0, 2**42), st.integers(0, 999))
def test_a_moment_is_in_the_millisecond_that_has_begun(milliseconds: int, micros: int) -> None:
    assert timestamp_ms(utc(milliseconds) + timedelta(microseconds=micros)) == milliseconds
