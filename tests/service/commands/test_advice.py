"""What a refused submission is advised to do: only what would be accepted."""

from pathlib import Path

import pytest

from runrig.domain.errors import Refused
from runrig.spec.cluster import read_cluster
from tests.worlds.service import desk

_CLUSTER = """
backend: {{name: lab, type: simulated}}
nodes:
- {{name: h, resources: {{gpu: 16}}, labels: {{gpu: h100}}}}
- {{name: b, resources: {{gpu: 24}}, labels: {{gpu: b200}}}}
flavors: [{{name: h100, node_labels: {{gpu: h100}}}}, {{name: b200, node_labels: {{gpu: b200}}}}]
pools:
- name: team
  flavors: [h100, b200]
  quota: {{h100: {{gpu: {{nominal: 12}}}}, b200: {{gpu: {{nominal: 20}}}}}}
  subpools:
  - {{name: a, quota: {{h100: {{gpu: {{nominal: 2}}}}, b200: {{gpu: {{nominal: 10}}}}}}}}
  - {{name: b, quota: {{h100: {{gpu: {{nominal: 8}}}}, b200: {{gpu: {{nominal: {of_b}}}}}}}}}
"""
_WORK = """
workflow:
  name: w
  groups:
  - name: main
    tasks:
    - {{name: lead, lead: true, image: any, command: [x], resource: few}}
    - {{name: rest, image: any, command: [x], resource: many}}
  resources:
    few: {{gpu: 3, platform: h100}}
    many: {{gpu: {many}, platform: b200}}
"""


@pytest.mark.parametrize(
    ("of_b", "many", "ways"),
    [
        (
            8,
            8,
            "Request less, submit with priority LOW to borrow, or submit to team--b, which has 8 GPUs of quota left",
        ),
        (7, 8, "Request less or submit with priority LOW to borrow"),
        (7, 10, "Request less or submit with priority LOW to borrow"),
    ],
)
def test_advice_names_no_pool_that_lacks_another_kind_of_gpu(tmp_path: Path, of_b: int, many: int, ways: str) -> None:
    cluster = _CLUSTER.format(of_b=of_b)
    with (
        desk(tmp_path, nodes=read_cluster(cluster).nodes, cluster=cluster) as it,
        pytest.raises(Refused, match="needs 3 h100 GPUs") as refused,
    ):
        it.submit("w", "team--a", text=_WORK.format(many=many))
    assert refused.value.message.partition("Request")[2] == ways.removeprefix("Request")
