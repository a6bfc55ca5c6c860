"""The scenarios of gangs near each other, small: what comes out is checked, how fast is no matter of tests."""

import json
from collections import Counter
from functools import partial

import pytest
from bench.__main__ import main
from bench.racks import FULL, GPUS, KEYS, Cluster, Used, check, gang, node_name
from bench.topology import (
    BLOCKED,
    NOWHERE,
    PLACES,
    STREAMS,
    Asked,
    Blocked,
    Stream,
    explain,
    fewer,
    growth,
    place,
    preempt,
    preferred,
    required,
    throughput,
)

from bench import reference
from runrig.domain.gangs import Assignment, NodeShare, Placement, Requirement

pytestmark = pytest.mark.slow

TINY = Cluster(nodes=24, hosts=4, racks=3)
"""Two blocks of three racks of four hosts.  Busy, its racks have 11, 18, 16, 14, 21 and 10 GPUs left."""

HALVES = Cluster(nodes=64, hosts=16, racks=2)
"""Two blocks of two racks; a gang of eight nodes is half a rack."""

BLOCK, RACK, NEAR_RACK = (required("block"),), (required("rack"),), (preferred("rack"),)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.calibration.once", lambda *_: 0.02)


# ---------------------------------------------------------------- the cluster and its check


def test_full_cluster_has_25_blocks_of_25_racks_of_16_hosts() -> None:
    assert [FULL.domain(key.key, FULL.nodes - 1) for key in KEYS] == [24, 624, 9999]
    busy = FULL._replace(busy=True)
    assert Counter(map(busy.taken, range(busy.nodes))) == {0: 1112, **dict.fromkeys(range(1, 9), 1111)}


def placed(pods: dict[int, int]) -> Placement:
    shares = tuple(NodeShare(node_name(host), count) for host, count in pods.items())
    return (Assignment("main", "default", sum(pods.values()), shares),)


@pytest.mark.parametrize(
    ("near", "pods", "used"),
    [
        ((), {0: 8, 23: 2}, Used(2, 2, 2)),
        (BLOCK, {0: 8, 11: 2}, Used(2, 2, 1)),
        (RACK, {0: 8, 3: 2}, Used(2, 1, 1)),
        (NEAR_RACK, {3: 5, 4: 5}, Used(2, 2, 1)),
        ((required("rack", 4),), {0: 4, 4: 6}, Used(2, 2, 1)),
    ],
)
def test_valid_placement_is_described_by_its_domain(
    near: tuple[Requirement, ...], pods: dict[int, int], used: Used
) -> None:
    assert check(TINY, [(gang("w-1/g", 10, near), placed(pods))]) == used


@pytest.mark.parametrize(
    ("near", "pods", "problem"),
    [
        ((), {0: 9, 1: 1}, r"too much on \[0\]"),
        (BLOCK, {11: 5, 12: 5}, r"in \{0, 1\}"),
        (RACK, {3: 5, 4: 5}, r"in \{0, 1\}"),
        ((required("rack", 4),), {0: 5, 4: 5}, r"in \{0, 1\}"),
        ((required("block"), required("rack", 8)), {0: 8, 12: 2}, r"in \{0, 1\}"),
    ],
)
def test_invalid_placement_stops_a_scenario(near: tuple[Requirement, ...], pods: dict[int, int], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        check(TINY, [(gang("w-1/g", 10, near), placed(pods))])


def test_measured_gangs_and_background_load_count_together() -> None:
    two = [(gang(f"w{each}-1/g", 5), placed({0: 5})) for each in range(2)]
    assert check(TINY, two[:1]) == Used(1, 1, 1)
    with pytest.raises(AssertionError, match=r"too much on \[0\]"):
        check(TINY, two)
    with pytest.raises(AssertionError, match=r"too much on \[1\]"):
        check(TINY._replace(busy=True), [(gang("w-1/g", 1), placed({1: 1}))])


# ---------------------------------------------------------------- the scenarios


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        (Asked(32, RACK), Used(4, 1, 1)),
        (Asked(33, RACK), NOWHERE),
        (Asked(96, BLOCK), Used(12, 3, 1)),
        (Asked(97, BLOCK), NOWHERE),
        (Asked(40, NEAR_RACK), Used(5, 2, 1)),
        (Asked(100), Used(13, 4, 2)),
        (Asked(12, (preferred("block"),), GPUS), Used(12, 3, 1)),
        (Asked(13, (preferred("block"),), GPUS), Used(13, 4, 2)),
        (Asked(64, (required("block"), required("rack", 16))), Used(8, 2, 1)),
        (Asked(64, (required("block"), required("rack", 16), required("host", GPUS))), Used(8, 2, 1)),
        (Asked(16, RACK, busy=True), Used(3, 1, 1)),
        (Asked(21, RACK, busy=True), Used(3, 1, 1)),
        (Asked(22, RACK, busy=True), NOWHERE),
        (Asked(1, (preferred("host"),), GPUS, busy=True), Used(1, 1, 1)),
        (Asked(90, busy=True), Used(21, 6, 2)),
        (Asked(91, busy=True), NOWHERE),
    ],
)
def test_one_gang_is_placed(asked: Asked, used: Used) -> None:
    assert place(asked, 1, TINY).used == used


@pytest.mark.parametrize("stream", [Stream(RACK), Stream(NEAR_RACK), Stream(()), Stream(RACK, at_once=True)])
def test_gangs_of_half_a_rack_fill_whole_racks(stream: Stream) -> None:
    seconds, used = throughput(stream, HALVES, pools=2, gangs=6)
    assert (seconds > 0, used) == (True, Used(48, 3, 2))


def test_stream_that_does_not_fit_is_not_fast() -> None:
    with pytest.raises(AssertionError, match="8 of 10 started"):
        throughput(Stream(RACK), HALVES, pools=2, gangs=10)


@pytest.mark.parametrize(
    ("near", "pods", "told", "domains"), [(BLOCK, 32, 4, (2, 1)), (RACK, 16, 2, (1, 1)), (RACK, 8, 1, (1, 1))]
)
def test_all_targets_are_in_the_required_domain(
    near: tuple[Requirement, ...], pods: int, told: int, domains: tuple[int, int]
) -> None:
    found = preempt(Blocked(near, pods, told, HALVES), 1)
    assert (found.many, found.used) == (told, Used(pods, *domains))


def test_preference_stops_no_more_gangs_than_needed() -> None:
    found = preempt(Blocked(NEAR_RACK, 32, 4, HALVES), 1)
    assert (found.many, found.used.hosts) == (4, 32)


def test_as_many_pods_start_as_a_rack_has_gpus() -> None:
    found = fewer(1, TINY)
    assert (found.many, found.used) == (32, Used(4, 1, 1))


def test_why_names_the_rule_about_nodes_behind_any_queue() -> None:
    assert [explain(waiting, 1, TINY).many for waiting in (0, 7)] == [0, 7]


# ---------------------------------------------------------------- the tables


def test_every_scenario_has_a_reference_figure() -> None:
    assert list(PLACES) == list(reference.PLACED) == list("ABCDEFGHIJKLMNOP")
    assert set(STREAMS) == set(reference.STREAMED)
    assert set(BLOCKED) == set(reference.PREEMPTED)


def test_placements_are_shown_next_to_the_reference_with_a_median_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.topology.place", partial(place, cluster=TINY))
    monkeypatch.setattr("bench.topology.PLACES", {"A": Asked(40, NEAR_RACK), "B": Asked(33, RACK), "C": Asked(32)})
    theirs = {"A": reference.Placed(1e6, 5, 1, 1), "B": reference.Placed(1e6), "C": reference.Placed(1e-6, 4, 1, 1)}
    monkeypatch.setattr("bench.reference.PLACED", theirs)
    assert main(["T1", "--runs", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["T1"]
    shown = ("scenario", "target", "is", "lies in", "reference in", "no more")
    assert [tuple(row[head] for head in shown) for row in rows] == [
        ("A", "1/10", "met", "5/2/1", "5/1/1", "MISSED"),
        ("B", "1/10", "met", "0/0/0", "0/0/0", "met"),
        ("C", "1/10", "MISSED", "4/1/1", "4/1/1", "met"),
        ("median", "1/10", "met", "", "", ""),
    ]


def test_partial_admission_and_why_have_their_own_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.topology.fewer", partial(fewer, cluster=TINY))
    monkeypatch.setattr("bench.topology.explain", partial(explain, cluster=TINY))
    monkeypatch.setattr("bench.topology.WAITING", (0, 3))
    assert main(["why", "T5", "--runs", "1"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if "pods, at least" in line] == ["512"]
    assert [line.split()[0] for line in printed.splitlines() if line.lstrip()[:2] in ("0 ", "3 ")] == ["0", "3"]


def test_growth_measures_each_series_at_each_size() -> None:
    points = list(growth(1, (400, 432)))
    series = ["place A", "place A, after a change", "place B", "place B, after a change", "T5", "why"]
    assert Counter((point.series, point.at) for point in points) == Counter(
        (each, count) for each in series for count in (400, 432)
    )
    assert all(point.times.least > 0 for point in points)
