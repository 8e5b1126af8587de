"""SQL92 filters: an expression over message properties, compiled once, evaluated per message.

    text -> parser.py -> tree.py -> compiler.py -> SqlFilter.matches
                                 -> program.py  -> SqlFilter.program, for `RecordFilter`

`values.py` has how a property, which is always a text, is compared with a number. What
Apache's parser accepts is accepted here, its oddities included; each is named
where it is coded. Keeping compiled filters is the caller's business.
"""

from collections.abc import Mapping
from typing import Final, final

from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.record_filter import Program
from roquet.protocol.sql_filter.compiler import Evaluator, compile_tree
from roquet.protocol.sql_filter.parser import parse
from roquet.protocol.sql_filter.program import program_of
from roquet.protocol.sql_filter.values import Unconvertible

EXPRESSION_SIZE_MAX: Final = 16 * 1024

__all__ = ["EXPRESSION_SIZE_MAX", "SqlFilter", "compile_filter"]


@final
class SqlFilter:
    """A compiled expression; it holds no state, so one serves any number of messages."""

    __slots__ = ("_evaluate", "expression", "program")

    def __init__(self, expression: str, evaluate: Evaluator, program: Program | None) -> None:
        self.expression = expression
        # The same over the bytes of a record; None if there is no such program.
        self.program = program
        self._evaluate = evaluate

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Only true delivers: not unknown, nor a property that cannot be compared as a number."""
        try:
            return self._evaluate(properties) is True
        except Unconvertible:
            return False


def compile_filter(expression: str) -> SqlFilter:
    """Raises BadExpression or TooLarge."""
    if len(expression) > EXPRESSION_SIZE_MAX:
        raise TooLarge("filter expression", len(expression), EXPRESSION_SIZE_MAX)
    tree = parse(expression)
    return SqlFilter(expression, compile_tree(tree), program_of(tree))
