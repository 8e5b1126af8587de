"""What `roquet doctor` reports: a finding, how bad it is, and its remedy."""

from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    PROBLEM = "problem"
    WARNING = "warning"
    FINE = "fine"


class Finding(NamedTuple):
    severity: Severity
    subject: str
    text: str
    remedy: str | None = None
