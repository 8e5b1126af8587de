"""Before anything is changed that cannot be changed back: a look at it, and a word."""

import sys
from argparse import ArgumentParser

from roquet.cli.operating.commands import Session
from roquet.cli.operating.failures import Failed


def define_confirmation(parser: ArgumentParser) -> None:
    words = parser.add_mutually_exclusive_group()
    words.add_argument("--yes", action="store_true", help="Do it, without asking.")
    words.add_argument("--dry-run", action="store_true", help="Show what would be done, no more.")


def is_confirmed(session: Session, question: str) -> bool:
    """Whether to go on, after it was shown what that means. Asks who sits at a terminal.

    False is a dry run. Raises Failed if nobody said yes.
    """
    if session.given.yes:
        return True
    if session.given.dry_run:
        return False
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
        raise Failed("nothing was changed")
    raise Failed("nothing was changed; --yes does it, --dry-run only shows it")
