"""Requirements at the gate: checked everywhere, and refused at submission until they are placed (laws T1, T6)."""

from pathlib import Path

import pytest

from tests.api.client import api
from tests.cli.world import runrig
from tests.topology.podgroups import cluster, workflow

KEYS = {"zone": "topology.kubernetes.io/zone", "rack": "topology.kubernetes.io/rack"}
TEXT = workflow({"a": ["zone/z", "rack/r1"], "b": ["zone/z", "rack/r2"]})
NOT_PLACED = (
    "topology requirements are checked and rendered, not yet placed, and are not ignored either: "
    "`runrig workflow submit` takes the file without them"
)


def test_a_submission_with_requirements_is_refused_and_a_check_of_it_warns(tmp_path: Path):
    """T1."""
    with api(tmp_path, cluster=cluster(KEYS)) as it:
        checked = it.submit(TEXT, "p", validation_only=True)
        status, error = it.error("POST", "/api/pool/p/workflow", {"file": TEXT})
        assert it.get("/api/workflow", all_users=True)["workflows"] == []
    assert checked["warnings"] == [NOT_PLACED]
    assert (status, error["message"], error["details"]) == (
        400,
        f"w: {NOT_PLACED}, or check it with `runrig workflow validate`",
        {"law": "T1"},
    )


def test_simulate_does_not_ignore_requirements(tmp_path: Path):
    (tmp_path / "wf.yaml").write_text(TEXT)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(cluster(KEYS)[:-1] + ', "workflows": [{"file": "wf.yaml", "pool": "p"}]}')
    done = runrig("simulate", str(scenario), "-t", "json")
    assert [each["message"] for each in done.json["warnings"] if "refused" in each["message"]] == [
        f"refused: w: {NOT_PLACED}, or check it with `runrig workflow validate`"
    ]


@pytest.mark.parametrize(
    ("keys", "message", "details"),
    [
        (
            {"zone": "z", "row": "r"},
            "topology key 'rack' of task a was not found in pool p: it has zone, row",
            {"law": "T6", "pool": "p", "task": "a", "key": "rack", "keys": ["zone", "row"]},
        ),
        (
            {},
            "task a has a requirement for topology key 'zone', and pool p has no topology keys: leave the requirement out, or "
            "choose a pool that has the key",
            {"law": "T6", "pool": "p", "task": "a", "key": "zone", "keys": []},
        ),
    ],
)
def test_a_key_that_the_pool_does_not_have_is_refused_with_those_it_has(
    tmp_path: Path, keys: dict[str, str], message: str, details: dict[str, object]
):
    """T6."""
    with api(tmp_path, cluster=cluster(keys)) as it:
        answers = [
            it.error("POST", "/api/pool/p/workflow", {"file": TEXT}, **query)
            for query in ({}, {"dry_run": True}, {"validation_only": True})
        ]
    assert [(status, error["message"], error["details"]) for status, error in answers] == [(400, message, details)] * 3


def test_topology_keys_of_a_pool_are_set_changed_and_shown_over_http(tmp_path: Path):
    def keys(*pairs: str) -> list[dict[str, str]]:
        return [dict(zip(("key", "label"), pair.split("="), strict=True)) for pair in pairs]

    with api(tmp_path) as it:
        it.call("POST", "/api/configs/pool", {"name": "k", "topology_keys": keys("zone=z", "rack=r")})
        before = it.get("/api/configs/pool/k")["topology_keys"]
        it.call("PATCH", "/api/configs/pool/k", {"topology_keys": keys("rack=r")})
        after = it.get("/api/configs/pool/k")["topology_keys"]
        wrong = [
            it.error("PATCH", "/api/configs/pool/k", {"topology_keys": keys(*pairs)})[1]["message"]
            for pairs in (
                ("a=r", "b=r"),
                ("host=kubernetes.io/hostname", "rack=r"),
                ("rack=no label",),
                tuple(f"k{number}=l{number}" for number in range(17)),
            )
        ]
        kept = it.get("/api/configs/pool/k")["topology_keys"]
    assert (before, after, kept) == (keys("zone=z", "rack=r"), keys("rack=r"), keys("rack=r"))
    assert wrong == [
        "topology keys and their labels must be unique",
        "the label kubernetes.io/hostname is the finest there is: its topology key stands last",
        "'no label' is no label of a node: write such as topology.kubernetes.io/rack",
        "17 topology keys are too many: at most 16",
    ]
