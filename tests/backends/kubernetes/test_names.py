"""Names: what Kubernetes takes, and no two alike."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.backends.kubernetes import names
from runrig.domain.workflows import TaskKey
from tests.backends.kubernetes.gangs import UUID

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

TASKS = st.from_regex(r"[a-zA-Z]([a-zA-Z0-9_-]{0,199}[a-zA-Z0-9])?", fullmatch=True) | st.sampled_from(
    ["a-b", "a_b", "A-B", "a--b", "A", "a", "t-0", "t_0", "x" * 63, "x" * 64, "X" * 200, "_", "-", "0"]
)
UUIDS = st.uuids().map(str)


@given(TASKS, UUIDS, st.integers(0, 10**6))
def test_names_of_objects_of_a_gang_are_valid(task: str, gang: str, number: int) -> None:
    assert DNS_LABEL.fullmatch(names.pod_name(gang, task, number))
    assert DNS_LABEL.fullmatch(names.hostname(task))
    assert SERVICE.fullmatch(names.service_name(gang))
    assert DNS_SUBDOMAIN.fullmatch(names.secret_name(gang, number))
    assert DNS_SUBDOMAIN.fullmatch(names.host("jobs", gang, task))


@given(st.lists(st.tuples(UUIDS, TASKS, st.integers(0, 12)), unique=True, min_size=2))
def test_pods_of_different_attempts_have_different_names(attempts: list[tuple[str, str, int]]) -> None:
    assert len({names.pod_name(*each) for each in attempts}) == len(attempts)


@given(st.lists(TASKS, unique=True, min_size=2))
def test_pods_of_a_gang_have_different_host_names(tasks: list[str]) -> None:
    assert len({names.hostname(task) for task in tasks}) == len(tasks)


@given(st.text(max_size=200))
def test_any_text_becomes_a_valid_label_value(text: str) -> None:
    assert LABEL_VALUE.fullmatch(names.label_value(text))


@given(st.from_regex(LABEL_VALUE, fullmatch=True))
def test_valid_label_value_is_unchanged(text: str) -> None:
    assert names.label_value(text) == text


def test_names_stay_the_same_in_later_versions() -> None:
    """A server that is newer than its pods finds them."""
    assert names.pod_name(UUID, "worker-3", 2) == "worker-3-9481c8632aad59ad"
    assert names.pod_name(UUID, "Big_One", 0) == "big-one-80fab2837cf95a5c"
    assert (names.hostname("worker-3"), names.hostname("Big_One")) == ("worker-3", "big-one-271c56cbf6455dec")
    assert names.service_name(UUID) == f"g-{UUID}"
    assert names.secret_name(UUID, 1) == f"{UUID}-1"
    assert names.host("jobs", UUID, "worker-3") == f"worker-3.g-{UUID}.jobs.svc"


@given(TASKS, TASKS, st.integers(0, 10**6))
def test_key_is_read_back_from_the_pod(workflow: str, task: str, retry: int) -> None:
    key = TaskKey(workflow, task, retry)
    assert names.key_of({"metadata": {"annotations": {names.KEY: str(key)}}}) == key


@pytest.mark.parametrize("said", ["", "w", "w/t", "w/t/", "/t/0", "w//0", "w/t/x", "w/t/-1", "w/t/0/1", "w/t/²"])
def test_damaged_key_counts_as_none(said: str) -> None:
    assert names.key_of({"metadata": {"annotations": {names.KEY: said}}}) is None


def test_pod_without_annotations_has_no_key() -> None:
    without: tuple[dict[str, Any], ...] = ({}, {"annotations": {}}, {"annotations": None})
    assert [names.key_of({"metadata": each}) for each in without] == [None] * 3
