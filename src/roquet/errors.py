"""The root of every error that Roquet raises on purpose.

Each package has its own errors below it, next to the code that raises them.
"""


class RoquetError(Exception):
    """A known failure; the text names the remedy."""
