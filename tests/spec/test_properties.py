"""Whatever is written: a value, or InvalidInput; never anything else."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runrig.domain.errors import InvalidInput, Problem
from runrig.spec.cluster import read_cluster
from runrig.spec.patterns import parse_pattern
from runrig.spec.template import is_template, render
from runrig.spec.workflow import read_workflow
from runrig.spec.yamltree import decoded, node_of, plain, read_yaml
from tests.spec.test_cluster import FULL as CLUSTER
from tests.spec.test_workflow import FULL as WORKFLOW
from tests.worlds.edits import amounts, share
from tests.worlds.values import replace_one, values

Reader = Callable[[str], object]
READERS: list[Reader] = [read_workflow, read_cluster, read_yaml]
VALUES = values("-1", "1h", "4Gi", "{{host:a}}", "n{0..3}", "{n//0}", "a--b", "50%", "..", "/a/../b", "HIGH")


def survives(read: Reader, text: str) -> None:
    """*read* answers, or raises InvalidInput with problems of one line each."""
    problems: tuple[Problem, ...] = (Problem("fine"),)
    try:
        read(text)
    except InvalidInput as error:
        problems = error.problems
    assert problems
    assert all(problem.message and "\n" not in problem.message for problem in problems)


@given(st.text(), st.sampled_from(READERS))
@settings(deadline=None)
def test_any_text(text: str, read: Reader) -> None:
    survives(read, text)


@given(st.binary())
@settings(deadline=None)
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    survives(lambda _: read_workflow(decoded(data)), "")


@given(st.text(alphabet="{}%#a: \n-[]&*!|>'\"default-values", max_size=60).filter(lambda text: not is_template(text)))
@settings(deadline=None)
def test_any_text_that_is_not_a_template_renders(text: str) -> None:
    survives(render, text)


@given(st.sampled_from([(read_workflow, WORKFLOW), (read_cluster, CLUSTER)]), st.data())
@settings(max_examples=200, deadline=None)
def test_any_value_in_place_of_a_valid_one_is_read_or_rejected(good: tuple[Reader, str], data: st.DataObject) -> None:
    read, text = good
    value = plain(read_yaml(text).node)
    replace_one(value, VALUES, data)
    survives(read, json.dumps(value))
    survives(read, yaml.safe_dump(value))


@given(VALUES, st.sampled_from([("default",), ("h100", "b200")]))
@settings(deadline=None)
def test_any_value_as_a_quota_is_read_or_rejected(value: Any, flavors: tuple[str, ...]) -> None:
    for read in (lambda said: amounts(flavors, quota=said, lending_limit=said), lambda said: share(said, flavors)):
        survives(lambda _: read(value), "")  # noqa: B023
        survives(read, str(value))


@given(st.text(alphabet="n0123456789+-*/%(){} ", max_size=20), st.integers(0, 10**6))
@settings(deadline=None)
def test_any_pattern_is_evaluated_or_refused(text: str, n: int) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_pattern(text).at(n), str)


@given(st.integers(0, 10**6), st.integers(1, 100), st.integers(1, 100))
@settings(deadline=None)
def test_a_pattern_computes_as_python_does(n: int, a: int, b: int) -> None:
    assert parse_pattern(f"r{{(n+{a})//{b}-n%{a}}}x").at(n) == f"r{(n + a) // b - n % a}x"


@given(VALUES)
@settings(deadline=None)
def test_values_are_read_back_unchanged_from_json(value: Any) -> None:
    text = json.dumps(value)
    assume("NaN" not in text and "Infinity" not in text)  # not valid JSON, although Python writes it
    assert plain(node_of(json.loads(text))) == json.loads(text)
