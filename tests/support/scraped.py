"""What a page of metrics says, read by the library that Prometheus has for Python."""

from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Scraped(NamedTuple):
    """Values by name, and by labels."""

    kinds: dict[str, str]
    values: dict[str, list[tuple[dict[str, str], float]]]

    def value(self, name: str, **labels: str) -> float:
        """The one with these labels, among others that it may have."""
        (found,) = self.all(name, **labels)
        return found

    def all(self, name: str, **labels: str) -> list[float]:
        return [value for own, value in self.values.get(name, []) if own.items() >= labels.items()]


def scraped(text: bytes) -> Scraped:
    found = Scraped({}, {})
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.values.setdefault(sample.name, []).append((sample.labels, sample.value))
        # The library takes the end of a counter's name off.
        suffix = "_total" if family.type == "counter" else ""
        found.kinds[f"{family.name}{suffix}"] = family.type
    return found
