"""The generator of clusters, and the clusters in examples/clusters that it made."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from demo import clusters
from demo.generator import CLIQUE, HOST, RACK, SPINE, ZONE, Shape, cluster, filling, layout, span
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.cluster import ClusterSpec
from runrig.domain.quantities import FlavorResource
from runrig.spec.cluster import read_cluster
from runrig.spec.workflow import read_workflow
from tests.patience import PATIENCE_S
from tests.worlds.command_line import runrig, up

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "clusters"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
BY_HAND = {"two-pools"}
MADE = [path for path in EXAMPLES if path.stem not in BY_HAND]

GPU = FlavorResource("default", "gpu")
LEVELS = (ZONE, SPINE, RACK)
SMALL = Shape(zones=2, spines=1, racks=2, nodes=4, pools=2)


def racks(spec: ClusterSpec, *labels: str) -> dict[tuple[str, ...], int]:
    """How many nodes there are on each path of *labels*."""
    return dict(Counter(tuple(node.labels[label] for label in labels) for node in spec.nodes))


def cordoned(spec: ClusterSpec) -> list[str]:
    return [node.name for node in spec.nodes if not node.ready]


def quotas(spec: ClusterSpec) -> dict[str, int]:
    return {pool.name: pool.quotas[GPU].nominal for pool in spec.pools}


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and error of one command line."""
    try:
        code = clusters.main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


# ---------------------------------------------------------------- the examples


@pytest.mark.parametrize("example", MADE, ids=lambda path: path.stem)
def test_first_line_of_an_example_reproduces_it(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = example.read_text(encoding="utf-8").partition("\n")[0]
    words = shlex.split(first.removeprefix("# python -m demo.clusters "))
    again = tmp_path / "again.yaml"
    assert typed(capsys, *words, "-o", str(again)) == (0, "", "")
    assert again.read_bytes() == example.read_bytes()
    assert typed(capsys, *words) == (0, example.read_text(encoding="utf-8"), "")


SIZES = {
    "nvl72": (2, 4, [18] * 16, 4, 0, {"team-a": 384, "team-b": 384, "team-c": 384}),
    "spines": (2, 4, [16] * 16, 8, 0, {"team-a": 680, "team-b": 680, "team-c": 680}),
    "uneven": (
        *(2, 4, [3, 3, 3, 4, 6, 9, 10, 10, 10, 13, 14, 15, 15, 16, 17, 18], 8, 3),
        {"team-a": 432, "team-b": 432, "team-c": 432},
    ),
    "small": (2, 2, [4] * 4, 8, 0, {"team-a": 64, "team-b": 64}),
}
"""Zones, spines, nodes of each rack, GPUs of a node, cordoned nodes, quotas."""


@pytest.mark.parametrize("example", MADE, ids=lambda path: path.stem)
def test_example_is_read_and_has_these_sizes(example: Path) -> None:
    spec = read_cluster(example.read_text(encoding="utf-8"))
    keys = [[(key.key, key.label) for key in pool.topology_keys] for pool in spec.pools]
    rack = CLIQUE if example.stem == "nvl72" else RACK
    assert keys == [[("zone", ZONE), ("spine", SPINE), ("rack", rack)]] * len(spec.pools)
    (gpus,) = {node.resources["gpu"] for node in spec.nodes}
    of_racks = sorted(racks(spec, ZONE, SPINE, rack).values())
    zones, spines = len(racks(spec, ZONE)), len(racks(spec, ZONE, SPINE))
    assert (zones, spines, of_racks, gpus, len(cordoned(spec)), quotas(spec)) == SIZES[example.stem]
    assert spec.backend_type == "simulated"


def test_every_example_is_in_the_table_and_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "examples.md").read_text(encoding="utf-8")
    assert {path.stem for path in EXAMPLES} == set(SIZES) | BY_HAND
    assert [path.name for path in EXAMPLES if f"/examples/clusters/{path.name})" not in page] == []


# ---------------------------------------------------------------- shapes

spreads = st.tuples(st.integers(1, 4), st.integers(0, 4)).map(lambda each: (each[0], each[0] + each[1]))
shapes = st.builds(
    Shape,
    zones=st.integers(1, 3),
    spines=st.integers(1, 3),
    racks=spreads,
    nodes=spreads.map(lambda each: (each[0] + 3, each[1] + 3)),
    gpus=st.sampled_from([1, 4, 6, 8, 72]),
    cordoned=st.integers(0, 3),
    pools=st.just(1),
    seed=st.integers(0, 5),
    host_key=st.booleans(),
)


@given(shapes)
def test_file_matches_its_shape(shape: Shape) -> None:
    spec = read_cluster(cluster(shape))
    of_racks = racks(spec, *LEVELS)
    of_spines = Counter(path[:2] for path in of_racks)
    assert sorted(Counter(zone for zone, _ in of_spines).values()) == [shape.spines] * shape.zones
    assert all(span(shape.racks)[0] <= count <= span(shape.racks)[1] for count in of_spines.values())
    assert all(span(shape.nodes)[0] <= count <= span(shape.nodes)[1] for count in of_racks.values())
    assert len(of_racks) == len({rack for _, _, rack in of_racks}), "racks are numbered through"
    assert [node.name for node in spec.nodes] == sorted(node.name for node in spec.nodes)
    assert {node.resources["gpu"] for node in spec.nodes} == {shape.gpus}
    assert len(cordoned(spec)) == shape.cordoned
    assert quotas(spec) == {"team-a": (len(spec.nodes) - shape.cordoned) * shape.gpus}
    host = [("host", HOST)] if shape.host_key else []
    (pool,) = spec.pools
    keys = [("zone", ZONE), ("spine", SPINE), ("rack", RACK), *host]
    assert [(key.key, key.label) for key in pool.topology_keys] == keys


def test_labels_of_an_even_cluster_follow_the_number_even_next_to_a_cordoned_node() -> None:
    shape = Shape(zones=2, spines=3, racks=2, nodes=5, cordoned=7)
    found = {node.name: tuple(node.labels[label] for label in LEVELS) for node in read_cluster(cluster(shape)).nodes}
    wanted = {
        f"n{((zone * 3 + spine) * 2 + rack) * 5 + node:02}": (
            *(f"z{zone}", f"s{zone * 3 + spine}", f"r{(zone * 3 + spine) * 2 + rack}"),
        )
        for zone in range(2)
        for spine in range(3)
        for rack in range(2)
        for node in range(5)
    }
    assert found == wanted
    assert len(cordoned(read_cluster(cluster(shape)))) == 7


def test_an_even_cluster_is_one_pattern_and_an_uneven_one_has_one_for_each_rack() -> None:
    def entries(shape: Shape) -> int:
        return cluster(shape).count("- {name: ")

    uneven = Shape(nodes=(12, 18))
    assert (entries(Shape()), entries(Shape(nodes=(16, 16))), entries(uneven)) == (1, 1, 16)
    assert len(set(racks(read_cluster(cluster(uneven)), RACK).values())) > 1


def test_same_shape_gives_the_same_text_and_another_seed_gives_another() -> None:
    shape = Shape(racks=(3, 6), nodes=(12, 18), cordoned=3)
    assert cluster(shape) == cluster(replace(shape))
    assert cluster(shape) != cluster(replace(shape, seed=2))
    assert filling(shape, 30) == filling(replace(shape), 30)
    assert filling(shape, 30).files != filling(replace(shape, seed=2), 30).files


def test_cordoned_nodes_change_nothing_else() -> None:
    shape = Shape(racks=(3, 6), nodes=(12, 18), pools=1)
    assert layout(shape).racks == layout(replace(shape, cordoned=9)).racks


def test_quotas_are_whole_nodes_and_guarantee_only_ready_ones() -> None:
    shape = Shape(zones=1, spines=1, racks=1, nodes=10, cordoned=2, pools=3)
    assert quotas(read_cluster(cluster(shape))) == {"team-a": 16, "team-b": 16, "team-c": 16}


# ---------------------------------------------------------------- the command


def test_every_option_appears_in_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--zones 1 --spines 1 --racks 1 --nodes 3-4 --gpus 2 --cpu 7 --memory 30Gi --cordoned 1 --pools 2 --seed 4 --host-key"
    code, out, err = typed(capsys, *words.split())
    assert (code, err) == (0, "")
    assert (
        out
        == (
            "# python -m demo.clusters --zones 1 --spines 1 --racks 1 --nodes 3-4 --gpus 2 --cpu 7 --memory 30Gi --cordoned 1 --pools 2 "
            "--seed 4 --host-key\n"
            "# 1 zone, 1 spine, 1 rack of 3 nodes, 2 GPUs each: 3 nodes, 6 GPUs; 1 node is cordoned\n"
            "backend: {name: lab, type: simulated}\n"
        )
        + out[out.index("nodes:\n") :]
    )
    spec = read_cluster(out)
    assert {tuple(node.resources.items()) for node in spec.nodes} == {
        (("gpu", 2), ("cpu", 7000), ("memory", 30 * 2**30))
    }


def test_racks_of_nvl72_have_18_nodes_with_4_gpus_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    def made(*words: str) -> tuple[set[int], set[int]]:
        spec = read_cluster(typed(capsys, "--nvl72", *words)[1])
        return set(racks(spec, CLIQUE).values()), {node.resources["gpu"] for node in spec.nodes}

    assert made() == ({18}, {4})
    sizes, gpus = made("--nodes", "16-18", "--gpus", "2")
    assert (sizes, gpus) == ({16, 17, 18}, {2})


WRONG = {
    "--racks 6-3": "racks is reversed. Use 3-6",
    "--racks many": "'many' is neither a number nor a range. Use for example 4 or 3-6",
    "--racks 3-": "'3-' is neither a number nor a range",
    "--nodes 0": "nodes is 0, but must be at least 1",
    "--nodes 0-3": "nodes is 0, but must be at least 1",
    "--zones -1": "zones is -1, but must be at least 1",
    "--gpus 0": "gpus is 0, but must be at least 1",
    "--zones 1.5": "invalid int value: '1.5'",
    "--racks 100 --nodes 1000": "up to 400,000 nodes are too many (maximum 100,000)",
    "--racks 1000 --nodes 1-2": "4,000 entries (maximum 3,000)",
    "--memory lots": "'lots' is not a quantity",
    "--memory 0": "memory is 0, but must be more than 0",
    "--cordoned -1": "cordoned is -1, but must be at least 0",
    "--cordoned 254": "256 nodes, 254 of them cordoned, are too few for 3 pools",
    "--pools 27": "27 pools are too many (maximum 26)",
    "--fill 101 --workflows FOLDER/new": "fill is 101, but must be from 1 to 100 percent",
    "--fill 0 --workflows FOLDER/new": "fill is 0, but must be from 1 to 100 percent",
    "--fill 60": "--fill and --workflows require each other",
    "--workflows FOLDER/new": "--fill and --workflows require each other",
    "--fill 60 --workflows FOLDER": "is not empty. Use a new folder",
    "-o FOLDER/no/cluster.yaml": "no/cluster.yaml cannot be written (No such file or directory)",
}


@pytest.mark.parametrize("words", WRONG)
def test_problems_are_reported_and_nothing_is_printed(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept").write_text("")
    code, out, err = typed(capsys, *words.replace("FOLDER", str(tmp_path)).split())
    assert (code, out, WRONG[words] in err) == (2, "", True), err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_examples_in_the_help_are_valid_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    *makes, simulate, up_with = [line.strip() for line in clusters.EXAMPLES.splitlines()[1:]]
    for line in makes:
        assert clusters.main(shlex.split(line.removeprefix("python -m demo.clusters "))) == 0
    assert runrig(*shlex.split(simulate.removeprefix("runrig "))).code == 0
    assert (up_with, Path("cluster.yaml").exists()) == ("runrig up --cluster cluster.yaml", True)


# ---------------------------------------------------------------- workloads that fill it


def write(folder: Path, shape: Shape, percent: int) -> Path:
    """The scenario of a filling."""
    work = filling(shape, percent)
    for name, text in (work.files | {"scenario.yaml": work.scenario}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "scenario.yaml"


def after(scenario: Path) -> dict[str, Any]:
    """What `runrig simulate` says of its first cycle."""
    done = runrig("simulate", str(scenario), "-t", "json")
    assert (done.code, done.err) == (0, "")
    answer: dict[str, Any] = json.loads(done.out)
    return answer


@pytest.mark.parametrize(
    ("shape", "percent", "gpus"),
    [
        (SMALL, 60, 77),
        (SMALL, 100, 128),
        (SMALL, 1, 1),
        (Shape(zones=1, racks=2, nodes=18, gpus=4, nvl72=True, cordoned=2), 75, 210),
        (Shape(zones=1, racks=(1, 3), nodes=(3, 9), cordoned=3, pools=3, seed=3), 100, None),
        (Shape(zones=1, spines=1, racks=2, nodes=5, gpus=6, memory="500Mi", cpu=3, pools=1), 90, 54),
        (Shape(zones=1, spines=1, racks=2, nodes=2, gpus=72, pools=1), 50, 144),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_simulate_shows_a_partly_filled_cluster(shape: Shape, percent: int, gpus: int | None, tmp_path: Path) -> None:
    answer = after(write(tmp_path, shape, percent))
    held = {pool: amounts["default/gpu"]["usage"] for pool, amounts in answer["quota"]["after"].items()}
    assert sum(held.values()) == (layout(shape).ready_gpus if gpus is None else gpus)
    assert [cycle["pending"] for cycle in answer["cycles"]] == [[]]
    assert answer["warnings"] == []


def test_gangs_are_low_use_1_to_16_gpus_last_hours_and_some_span_nodes() -> None:
    specs = [read_workflow(text) for text in filling(Shape(), 60).files.values()]
    gangs = [group.tasks[0] for spec in specs for group in spec.groups]
    sizes = Counter((task.pods, dict(task.requests)["gpu"]) for task in gangs)
    assert {spec.priority.value for spec in specs if spec.priority} == {"LOW"}
    assert all(1 <= pods * gpus <= 16 for pods, gpus in sizes)
    assert sizes.keys() >= {(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 4)}
    assert sum(pods * gpus * count for (pods, gpus), count in sizes.items()) == round(2048 * 0.6)
    assert all(task.duration_s and task.duration_s >= 6 * 3600 for task in gangs)


@pytest.mark.parametrize("gpus", [1, 4, 6, 8, 9, 12, 72])
def test_larger_pods_come_first_and_each_size_divides_the_one_before(gpus: int) -> None:
    """So that each node can be filled whole, whatever node is taken for a pod."""
    work = filling(Shape(gpus=gpus, zones=1), 100)
    order = re.findall(r"file: (team-[a-z]-\d+\.yaml)", work.scenario)
    tasks = [group.tasks[0] for name in order for group in read_workflow(work.files[name]).groups]
    sizes = [dict(task.requests)["gpu"] for task in tasks]
    assert all(larger % smaller == 0 for larger, smaller in pairwise([gpus, *sizes]))
    assert sorted(order) == sorted(work.files)


@pytest.mark.parametrize("shape", [SMALL, Shape(pools=2), Shape(pools=5, gpus=4)], ids=lambda shape: shape.command)
def test_pools_use_about_the_same_and_a_file_has_at_most_25_gangs(shape: Shape) -> None:
    work = filling(shape, 60)
    held: Counter[str] = Counter()
    for name, text in work.files.items():
        tasks = [group.tasks[0] for group in read_workflow(text).groups]
        held[name.rpartition("-")[0]] += sum(task.pods * dict(task.requests)["gpu"] for task in tasks)
        assert len(tasks) <= 25
    assert sorted(held) == shape.pool_names
    assert max(held.values()) - min(held.values()) <= 16


def test_printed_loop_fills_a_server_that_runs_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`runrig up` with an example, then what the generator says to type."""
    words = (FOLDER / "small.yaml").read_text().partition("\n")[0].removeprefix("# python -m demo.clusters ").split()
    work = tmp_path / "the work"
    code, out, told = typed(capsys, *words, "--fill", "20", "--workflows", str(work))
    assert (code, out) == (0, (FOLDER / "small.yaml").read_text())
    simulate, loop = told.splitlines()[1:]
    assert simulate == f"runrig simulate '{work}/scenario.yaml'"
    arguments = ("--backend", "simulated", "--cluster", str(FOLDER / "small.yaml"))
    with up(tmp_path / "data", *arguments) as server:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RUNRIG_")}
        environment |= {"RUNRIG_DATA": str(server.data), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-euc", loop], env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        names = re.findall(r"team-[ab]-\d+-\d+", done.stdout)
        # Everything submitted before it runs too.
        assert (
            server.runrig("workflow", "wait", names[-1], "--for", "RUNNING", "--timeout", str(int(PATIENCE_S))).code
            == 0
        )
        sets = server.json("pool", "list")["node_sets"]
    shown = [(pool["name"], pool["quota"], pool["capacity"]) for each in sets for pool in each["pools"]]
    assert shown == [("team-a", 64, 128), ("team-b", 64, 128)]
    assert sum(pool["total"] for each in sets for pool in each["pools"]) == 26
    assert len(set(names)) == len(list(work.glob("team-*.yaml")))
