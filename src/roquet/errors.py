"""The root of every error that Roquet raises on purpose.

Each room has its own errors below it, next to the code that raises them.
"""


class RoquetError(Exception):
    """Something went wrong in a way we know; the text says what to do about it."""
