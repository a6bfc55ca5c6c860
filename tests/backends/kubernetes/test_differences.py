"""Drift: what contradicts us is found, and what the API server adds does not count."""

import copy
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from runrig.backends.kubernetes.drift import matches

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "labels": {"runrig/gang": "g"}, "annotations": {}},
    "spec": {
        "automountServiceAccountToken": False,
        "containers": [
            {"name": "main", "image": "a", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 4}}},
            {"name": "side", "image": "b", "env": [{"name": "A", "value": "1000m"}]},
        ],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
}  # fmt: skip
TOPOLOGY: dict[str, Any] = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "t", "finalizers": ["runrig/kept"]},
    "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]},
}
QUEUE: dict[str, Any] = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"parentQueue": "p", "resources": {"gpu": {"quota": 4, "limit": -1, "overQuotaWeight": 0}}},
}


def changed(whole: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """With *value* at *path*; without what is there if *value* is None."""
    copied = copy.deepcopy(whole)
    inner: Any = copied
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copied


LIMITS = ("spec", "containers", 0, "resources", "limits")


@pytest.mark.parametrize(
    ("wanted", "path", "value"),
    [
        pytest.param(POD, ("status",), {"phase": "Running"}, id="a status"),
        pytest.param(POD, ("metadata", "uid"), "u", id="what the server writes"),
        pytest.param(POD, ("metadata", "labels", "a"), "b", id="a label of somebody else"),
        pytest.param(POD, ("metadata", "annotations"), None, id="an empty map is not kept"),
        pytest.param(POD, ("spec", "automountServiceAccountToken"), None, id="False is not kept"),
        pytest.param(POD, (*LIMITS, "cpu"), "1.5", id="1.5 is 1500m"),
        pytest.param(POD, (*LIMITS, "memory"), 1 << 30, id="a number is its quantity"),
        pytest.param(POD, (*LIMITS, "nvidia.com/gpu"), "4", id="a quantity is its number"),
        pytest.param(POD, ("spec", "tolerations"), [*POD["spec"]["tolerations"], {"key": "not-ready"}], id="a default at the end"),
        pytest.param(POD, ("spec", "containers"), [{"name": "init"}, *reversed(POD["spec"]["containers"])], id="order of named items"),
        pytest.param(TOPOLOGY, ("metadata", "finalizers"), ["runrig/kept", "another"], id="a finalizer of somebody else"),
        pytest.param(QUEUE, ("spec", "resources", "gpu", "quota"), 4.0, id="4.0 is 4"),
        pytest.param(QUEUE, ("spec", "priority"), 100, id="a default of another kind"),
    ],
)  # fmt: skip
def test_additional_fields_do_not_count_as_differences(
    wanted: dict[str, Any], path: tuple[str | int, ...], value: object
) -> None:
    assert matches(wanted, changed(wanted, path, value))


@pytest.mark.parametrize(
    ("wanted", "path", "value"),
    [
        (POD, ("metadata", "labels"), {}),
        (POD, ("spec", "automountServiceAccountToken"), True),
        (POD, ("spec", "containers", 1, "image"), "c"),
        (POD, ("spec", "containers", 1), None),
        (POD, ("spec", "containers", 1, "env", 0, "value"), "1"),
        (POD, (*LIMITS, "cpu"), "2"),
        (POD, (*LIMITS, "nvidia.com/gpu"), True),
        (POD, (*LIMITS, "memory"), "1G"),
        (POD, ("spec", "tolerations", 0, "key"), "cpu"),
        (POD, ("spec",), None),
        (TOPOLOGY, ("spec", "levels"), [*TOPOLOGY["spec"]["levels"], {"nodeLabel": "host"}]),
        (TOPOLOGY, ("spec", "levels", 1, "nodeLabel"), "row"),
        (QUEUE, ("spec", "resources", "gpu", "limit"), 4),
        (QUEUE, ("spec", "resources", "gpu", "overQuotaWeight"), None),
        (QUEUE, ("spec", "resources", "gpu", "quota"), "4"),
    ],
)
def test_contradictions_and_missing_fields_are_differences(
    wanted: dict[str, Any], path: tuple[str | int, ...], value: object
) -> None:
    assert not matches(wanted, changed(wanted, path, value))


def test_items_without_unique_names_are_compared_by_position() -> None:
    wanted = POD | {"spec": {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}}
    there = POD | {"spec": {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 3}]}}
    assert not matches(wanted, there)


# ---------------------------------------------------------------- any object

KEYS = st.sampled_from(["a", "b", "name", "limits", "cpu", "x.y/z"])
LEAVES = st.one_of(st.integers(-3, 3), st.text("ab1m.", max_size=3), st.booleans(), st.none())
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=3)
API_VERSIONS = st.sampled_from(["v1", "scheduling.k8s.io/v1", "scheduling.run.ai/v2"])


def whole(api_version: str, spec: object) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "K", "spec": spec}


@given(API_VERSIONS, OBJECTS)
@example("v1", {"a": [{"name": {}}, {"name": []}]})
@example("v1", {"limits": ["1", True, {"cpu": [1]}]})
def test_object_does_not_differ_from_itself(api_version: str, spec: dict[str, Any]) -> None:
    assert matches(whole(api_version, spec), whole(api_version, copy.deepcopy(spec)))


@given(API_VERSIONS, OBJECTS)
def test_additional_keys_in_any_map_do_not_count_as_differences(api_version: str, spec: dict[str, Any]) -> None:
    assert matches(whole(api_version, spec), whole(api_version, _more(spec)))


@given(API_VERSIONS, OBJECTS, st.data())
def test_any_changed_leaf_is_a_difference(api_version: str, spec: dict[str, Any], data: st.DataObject) -> None:
    leaves = list(_leaves(spec))
    assume(leaves)
    path = data.draw(st.sampled_from(leaves))
    there = changed({"spec": spec}, ("spec", *path), "another")
    assert not matches(whole(api_version, spec), whole(api_version, there["spec"]))


def _more(value: Any) -> Any:
    if isinstance(value, dict):
        return {"more": [1]} | {key: _more(inner) for key, inner in value.items()}
    return [_more(inner) for inner in value] if isinstance(value, list) else value


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    """The paths of all values that hold no others; names stay, as items are found by them."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner:
        yield path
    for key, each in inner:
        yield from _leaves(each, (*path, key)) if key != "name" else ()
