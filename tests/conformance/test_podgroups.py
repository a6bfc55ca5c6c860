"""Known task groups, through the command line, and the pod group that each becomes (laws T3, T6)."""

import re
from pathlib import Path

import pytest
import yaml

from tests.conformance.podgroups import DATA, Case, cluster, documents, outlined, rendered, workflow

CASES = yaml.load((DATA / "podgroups.yaml").read_text(), yaml.CSafeLoader)
TOPOLOGY = "osmo-pool-runrig-p-topology"
KAI_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if "becomes" in case])
def test_task_group_becomes_this_pod_group(case: Case, tmp_path: Path) -> None:
    """T3."""
    objects = documents(rendered(tmp_path, workflow(case["tasks"], case.get("counts")), cluster(case["keys"])))
    assert outlined(objects, TOPOLOGY) == case["becomes"]
    names = case["becomes"].get("subgroups", ())
    assert all(KAI_NAME.fullmatch(name) and len(name) <= 63 for name in names)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if "refused" in case])
def test_impossible_requirements_are_refused_by_render_and_validate(case: Case, tmp_path: Path) -> None:
    """T3, T6."""
    done = rendered(tmp_path, workflow(case["tasks"], case.get("counts")), cluster(case["keys"]))
    assert (done.code in (1, 2), done.out) == (True, "")
    assert [words for words in case["refused"] if words not in done.err] == []
