"""The OpenAPI document describes what the shapes are: each field of a model is made, in its order, and nothing else."""

import json
from typing import Any

import pytest

from runrig.api.osmo import models
from runrig.domain import shown
from runrig.osmo import nodes, pools, workflows
from runrig.osmo.shape import Links
from runrig.wire.base import Model, example_of

LINKS = Links("http://there", "/w/", "?whole", "/errors", "task", "nth")


def plain(kind: Any, **fields: Any) -> Any:
    return example_of(kind) | fields


WORKFLOW = plain(shown.Workflow, groups=[plain(shown.TaskGroup, pods=[plain(shown.PodCount)])])
SUBMITTED = plain(shown.WorkflowSubmitted)
POOL, PLATFORMS = plain(shown.Pool), pools.platforms_of([plain(shown.Flavor, name="default")])


@pytest.mark.parametrize(
    ("made", "model"),
    [
        (workflows.submitted(SUBMITTED, LINKS), models.SubmitAnswer),
        (workflows.rendered(SUBMITTED | {"file": "workflow: {}"}), models.SubmitAnswer),
        (workflows.validated(SUBMITTED), models.SubmitAnswer),
        (workflows.entry(plain(shown.WorkflowEntry), LINKS), models.ListEntry),
        (workflows.workflow(WORKFLOW, LINKS), models.WorkflowAnswer),
        (pools.settings(POOL, PLATFORMS), models.PoolSettingsAnswer),
        (pools.pool(POOL, PLATFORMS), models.PoolAnswer),
        (pools.pool_quota([POOL, POOL | {"name": "batch"}], PLATFORMS), models.PoolQuotaAnswer),
        (nodes.resource(plain(shown.Node), ["vision"], ["privileged"]), models.ResourceAnswer),
    ],
)
def test_shape_matches_its_documented_model(made: Any, model: type[Model]) -> None:
    read = model.model_validate(made)
    assert read.model_dump_json() == json.dumps(made, separators=(",", ":"))
