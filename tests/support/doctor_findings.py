"""Findings of `roquet doctor` as texts, for tests."""

from roquet.client.admin.doctor.finding import Finding, Severity


def bad(found: list[Finding]) -> list[str]:
    """All that is not fine has a remedy."""
    wrong = [each for each in found if each.severity is not Severity.FINE]
    assert all(each.remedy for each in wrong)
    return [f"{each.severity.value}: {each.text}" for each in wrong]
