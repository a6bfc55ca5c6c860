"""Options outside the file, and how the type of a file is detected."""

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.kueue import Strategy
from runrig.service.simulate.simulate import GATES, is_kubernetes, parse_gates, parse_strategies

BOTH = (Strategy.FINAL_SHARE, Strategy.INITIAL_SHARE)


@pytest.mark.parametrize(
    ("text", "strategies"),
    [
        ("", BOTH),
        ("LessThanOrEqualToFinalShare,LessThanInitialShare", BOTH),
        ("LessThanOrEqualToFinalShare", (Strategy.FINAL_SHARE,)),
        (" LessThanInitialShare ", (Strategy.INITIAL_SHARE,)),
    ],
)
def test_strategies_are_kueues_lists(text: str, strategies: tuple[Strategy, ...]) -> None:
    assert parse_strategies(text) == strategies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Fairest",
            "--fair-sharing: unknown strategy 'Fairest' (strategies: LessThanOrEqualToFinalShare, LessThanInitialShare)",
        ),
        (
            "LessThanInitialShare,LessThanOrEqualToFinalShare",
            "--fair-sharing: use one strategy, or both as LessThanOrEqualToFinalShare,LessThanInitialShare",
        ),
        (
            "LessThanInitialShare,LessThanInitialShare",
            "--fair-sharing: use one strategy, or both as LessThanOrEqualToFinalShare,LessThanInitialShare",
        ),
    ],
)
def test_an_unknown_strategy_is_a_usage_error(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_strategies(text)
    assert caught.value.message == message


def test_gates_are_sorted_and_optional() -> None:
    assert parse_gates("") == {}
    assert list(parse_gates("PartialAdmission=false, FlavorFungibility=True").items()) == [
        ("FlavorFungibility", True),
        ("PartialAdmission", False),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PartialAdmision=true", "--feature-gates: unknown gate 'PartialAdmision'. Did you mean 'PartialAdmission'?"),
        ("PartialAdmission", "--feature-gates: invalid 'PartialAdmission'. Use PartialAdmission=true or"),
        ("PartialAdmission=yes", "--feature-gates: invalid 'PartialAdmission=yes'. Use"),
        ("PartialAdmission=true,PartialAdmission=false", "--feature-gates: duplicate gate PartialAdmission"),
    ],
)
def test_an_unknown_gate_is_a_usage_error(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_gates(text)
    assert caught.value.message.startswith(message)


def test_the_message_about_an_unknown_gate_suggests_names() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_gates("X=true")
    assert ", ".join(list(GATES)[:20]) in caught.value.message


@pytest.mark.parametrize(
    ("text", "kubernetes"),
    [
        ("apiVersion: v1\nkind: Node\n", True),
        ("pools: []\n---\nkind: Node\napiVersion: v1\n", True),
        ('{"kind": "List", "apiVersion": "v1", "items": []}', True),
        ('{\n  "items": [],\n  "apiVersion": "v1"\n}', True),
        ('kind: Node\r\n"apiVersion" : v1\r\n', True),
        ("", True),
        ("# nothing\n---\n\n---\n...\n", True),
        ("pools: [{name: p, quota: 2}]\n", False),
        ("pools: []\nlabels:\n  apiVersion: v1\n", False),
        ("description: 'say apiVersion: v1'\n", False),
        ("text: |\n  apiVersion: v1\n", False),
        ("- apiVersion: v1\n", False),
        ("{a: [apiVersion: b], c: apiVersion}", False),
        ("- {", False),
    ],
)
def test_a_file_with_an_api_version_contains_manifests(text: str, kubernetes: bool) -> None:
    assert is_kubernetes(text) is kubernetes
    assert is_kubernetes(b"\xef\xbb\xbf" + text.encode()) is kubernetes
