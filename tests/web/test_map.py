"""The map by its address: the table says the same as the picture, and both what there is."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.gangs import GangState, Priority
from runrig.domain.shown.topology import GangsThatFit
from runrig.service.queries.board import Board, Look, board
from runrig.service.queries.visibility import ALL, Visibility
from runrig.spec.cluster import read_cluster
from runrig.web.domains import DomainRow, MapView, domains_of, is_of, outlined, path_named, places_in
from tests.web.test_board import NODES, SIGHTS, looks
from tests.web.visitor import Elements, Site, site

CLUSTER = """
nodes: [{name: "n{0..7}", resources: {gpu: 4}, labels: {zone: "z{n//4}", rack: "r{n//2}"}}]
pools:
- {name: mine, quota: 16, topology_keys: [{key: zone, label: zone}, {key: rack, label: rack}]}
- {name: other, quota: 16, topology_keys: [{key: zone, label: zone}, {key: rack, label: rack}]}
"""


def counted(shown: Board, path: tuple[str, ...], gang: str) -> DomainRow:
    """The same, node by node and without sums."""
    at = list(enumerate(shown.nodes))
    inside = [place for place, node in at if (node.path[: len(path)] == path if path else not node.path)]
    nodes = [shown.nodes[place] for place in inside]

    def held(node: str, *priorities: str, of: str = "") -> int:
        return sum(
            share.amount
            for each in shown.gangs
            for share in each.shares
            if share.node == node
            and each.priority in priorities
            and each.state is not GangState.NOMINATED
            and (not of or is_of(each, of))
        )

    every = ("HIGH", "NORMAL", "LOW")
    free = [max(0, node.gpus - held(node.name, *every)) if node.open else 0 for node in nodes]
    return DomainRow(
        path,
        inside[0],
        len(nodes),
        sum(node.gpus for node in nodes),
        sum(free),
        sum(node.gpus == left > 0 for node, left in zip(nodes, free, strict=True)),
        sum(held(node.name, "HIGH", "NORMAL") for node in nodes),
        sum(held(node.name, "LOW") for node in nodes),
        sum(held(node.name, *every, of=gang) for node in nodes) if gang else 0,
    )


@given(looks(), st.sampled_from(SIGHTS), st.sampled_from(["", "alpha-work-1", "beta-work-2/train"]))
def test_map_row_is_the_sum_of_its_nodes(look: Look, sight: Visibility, gang: str) -> None:
    shown = board(look, sight)
    for within in {(), *(node.path[:1] for node in shown.nodes)}:
        rows = domains_of(shown, within, 2, gang)
        if shown.levels:
            assert rows == tuple(counted(shown, row.path, gang) for row in rows)
            paths = {node.path[:level] for node in shown.nodes for level in range(len(node.path) + 1)}
            deepest = range(max(1, len(within)), len(within) + 3)
            placed = {path for path in paths if path[: len(within)] == within and len(path) in deepest}
            assert {row.path for row in rows} - {()} == placed
        else:
            assert [row.nodes for row in rows] == [len(NODES)]


@given(looks())
def test_domain_is_a_range_of_nodes(look: Look) -> None:
    shown = board(look, ALL)
    for row in domains_of(shown, depth=9):
        if row.path:
            assert path_named(shown, "/".join(row.path)) == row.path
            assert places_in(shown, row.path) == (row.first, row.nodes)
            there = shown.nodes[row.first : row.first + row.nodes]
            assert {node.path[: len(row.path)] for node in there} == {row.path}


@given(looks(), st.data())
def test_the_finest_domains_with_room_are_outlined(look: Look, data: st.DataObject) -> None:
    shown = board(look, ALL)
    rows = [row for row in domains_of(shown, depth=9) if row.path]
    chances = st.tuples(st.integers(0, 1), st.integers(0, 1))
    fits = {row.path: GangsThatFit(now, max(now, low), 1) for row in rows for now, low in [data.draw(chances)]}
    found = outlined(shown, fits)

    def finest(part: str) -> set[tuple[int, int]]:
        good = [row for row in rows if getattr(fits[row.path], part)]
        inside = [other.path[:level] for other in good for level in range(len(other.path))]
        return {(row.first, row.nodes) for row in good if row.path not in inside}

    assert set(found["now"]) == finest("now")
    assert set(found["low"]) == finest("after_low") - finest("now")


def test_url_determines_what_the_map_shows() -> None:
    view = MapView(("zone",), (), "load", ("z1", "s/8"), "a&b", "8x8")
    assert view.address() == "/map?by=load&in=z1%2Fs%2F8&gang=a%26b&size=8x8"
    assert view.address(by="", within="", gang="", size="") == "/map"
    assert MapView((), ()).address(table=1) == "/map?table=1"


# ---------------------------------------------------------------- over HTTP


@contextmanager
def racks(folder: Path) -> Iterator[Site]:
    """Of the first zone big-1 of mine holds three nodes and secret-1 of another pool one; small-1 holds a GPU of n4."""
    with site(folder, nodes=read_cluster(CLUSTER).nodes, cluster=CLUSTER) as it:
        for name, pool, gpus, count in (("big", "mine", 4, 3), ("secret", "other", 4, 1), ("small", "mine", 1, 1)):
            task = f"{{name: main, image: any, command: [go], resource: all, count: {count}, duration: 9000}}"
            text = f"workflow:\n  name: {name}\n  resources: {{all: {{gpu: {gpus}}}}}\n  groups: [{{name: g, tasks: [{task}]}}]"
            it.desk.submit(name, pool, Priority.NORMAL, text=text)
            it.desk.service.settle()
        yield it


def cells(text: str) -> list[list[str]]:
    """The rows of the table on a page, words only."""
    rows = re.findall(r"<tr><th scope=\"row\".*?</tr>", text, re.DOTALL)
    return [re.sub(r"(<[^>]*>)+", "|", row).strip("|").split("|") for row in rows]


def test_table_has_all_levels_and_fitting_gangs(tmp_path: Path) -> None:
    with racks(tmp_path) as it:
        shown = it.visitor().page("/map?table=1&size=2x4&gang=big-1")
        found = {row[0]: row[1:] for row in cells(shown)}
        assert list(found) == ["z0", "r0", "r1", "z1", "r2", "r3"]
        held = [each for each in it.desk.service.boards.board(ALL).gangs if each.id == "big-1/g"]
        on = {share.node for each in held for share in each.shares}
        assert found["z0"][:4] == ["4", "16", "0", "0"]
        assert {name: row[-3] for name, row in found.items() if row[-3] != "0"} == {
            "z0": "12", "r0": str(4 * len(on & {"n0", "n1"})), "r1": str(4 * len(on & {"n2", "n3"})),
        }  # fmt: skip
        report = {row[0]: row[-2:] for row in cells(shown)}
        assert report["r3"] == ["1", "1"]
        assert report["z1"] == ["1", "1"]
        assert report["r2"] == ["0", "0"]
        assert report["r0"] == ["0", "0"]
        assert "Gangs of 2x4 that fit: 1 now" in shown
        assert "map.js" not in shown


def test_fitting_domains_are_outlined_and_one_domain_can_be_shown(tmp_path: Path) -> None:
    with racks(tmp_path) as it:
        visitor = it.visitor()
        (domains,) = [each for _, each in Elements(visitor.page("/map?size=2x4")).found if each.get("id") == "domains"]
        assert (domains["data-now"], domains["data-low"]) == ("6+2", "")
        shown = visitor.page("/map?in=z1/r2&by=free")
        (domains,) = [each for _, each in Elements(shown).found if each.get("id") == "domains"]
        assert (domains["data-first"], domains["data-count"]) == ("4", "2")
        assert [row[0] for row in cells(shown)] == ["r2"]
        (map,) = [each for _, each in Elements(shown).found if each.get("id") == "map"]
        assert map["data-by"] == "free"


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("in=z9", 404, "Domain &#39;z9&#39; is not on the map"),
        ("by=heat", 422, "is invalid"),
        ("size=eight", 422, "nvalid size"),
        ("table=2", 422, "is invalid"),
    ],
)
def test_invalid_url_is_reported(tmp_path: Path, query: str, status: int, words: str) -> None:
    with racks(tmp_path) as it:
        answer = it.visitor().get(f"/map?{query}")
        assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_hidden_gang_is_treated_like_a_missing_one(tmp_path: Path) -> None:
    with racks(tmp_path) as it:
        eve = it.person("eve", "mine-user")
        pages = [eve.page(f"/map?gang={name}").replace(name, "X") for name in ("secret-1", "nothing-1")]
        assert pages[0] == pages[1]
        assert "uses no GPUs, or you do not have access to it" in pages[0]
        assert "big-1 uses 12 GPUs" in eve.page("/map?gang=big-1")
