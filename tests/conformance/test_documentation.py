"""docs/conformance.md says what the data says: how many cases of each kind, and which of them deviate."""

import re
from pathlib import Path

from tests.conformance.cases import KINDS, cases, every

PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
MOST_DEVIATIONS = 0.03


def test_the_page_counts_the_cases() -> None:
    said = {kind: int(count) for kind, count in re.findall(r"^\| `(\w+)\.yaml` \| (\d+) \|", PAGE, re.MULTILINE)}
    assert said == {kind: len(cases(kind)) for kind in KINDS}


def test_page_lists_exactly_the_deviations() -> None:
    section = PAGE.split("## Deviations")[1].split("\n## ")[0]
    said = dict(re.findall(r"^\| (\w+-\d{3}) \| (.+) \|$", section, re.MULTILINE))
    assert said == {case["id"]: case["deviation"] for case in every() if "deviation" in case}


def test_few_cases_deviate() -> None:
    deviations = [case["id"] for case in every() if "deviation" in case]
    assert len(deviations) <= MOST_DEVIATIONS * len(every())


def test_ids_are_consecutive() -> None:
    assert {kind: [case["id"] for case in cases(kind)] for kind in KINDS} == {
        kind: [f"{kind}-{number:03d}" for number in range(1, len(cases(kind)) + 1)] for kind in KINDS
    }
