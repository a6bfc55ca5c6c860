"""The answer of /metrics as values, read by Prometheus' own parser."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


def scraped(text: str) -> Mapping[str, Mapping[Labels, float]]:
    """Name of the series → labels, sorted → value; a series that is there twice is a failure."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in series, f"{sample.name} {labels} twice"
            series[labels] = sample.value
    return found


def labelled(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))
