"""Cards of nodes on the overview of a small cluster, and the user's own part of it."""

import re
from pathlib import Path

from runrig.domain.gangs import GangState, Priority
from runrig.domain.nodes import Node
from runrig.service.queries.board import Board, BoardGang, BoardNode, Share
from runrig.web.node_cards import Part, cards_of
from tests.web.visitor import site, words_of
from tests.worlds.service import one_task, submit


def board(*gangs: BoardGang, nodes: int = 1, gpus: int = 8) -> Board:
    return Board(1, (), tuple(BoardNode(f"n{at}", gpus, at != 1, ()) for at in range(nodes)), gangs, {})


def gang(
    id: str, amount: int, *indices: int, priority: str = "NORMAL", state: GangState = GangState.ADMITTED
) -> BoardGang:
    return BoardGang(id, "vision" if id else "", priority, state, (Share("n0", amount, indices),))


def test_gpus_of_a_workflow_have_their_positions_and_unnumbered_ones_fill_the_rest() -> None:
    (card,) = (
        cards_of(
            board(
                gang("", 1),
                gang("big-1/main-group", 3, 5, 6, 7),
                gang("low-1/main-group", 1, 0, priority="LOW"),
                gang("next-1/main-group", 1, 4, state=GangState.NOMINATED),
            )
        )
        or ()
    )
    assert card.parts == (
        Part(1, "low", "vision", "low-1"),
        Part(1, "firm"),
        Part(2, "free"),
        Part(1, "going", "vision", "next-1"),
        Part(3, "firm", "vision", "big-1", fits=True),
    )
    assert (card.held, card.closed) == (5, False), "a reserved GPU is not in use"
    assert [part.words for part in card.parts] == [
        "1 GPU: low-1, vision, LOW",
        "1 GPU: another pool",
        "2 GPUs: free",
        "1 GPU: next-1, vision, reserved or stopping",
        "3 GPUs: big-1, vision",
    ]


def test_large_clusters_and_large_nodes_have_the_map() -> None:
    assert len(cards_of(board(nodes=64)) or ()) == 64
    assert (cards_of(board(nodes=65)), cards_of(board(gpus=65))) == (None, None)
    assert [card.closed for card in cards_of(board(nodes=2)) or ()] == [False, True]


def test_overview_of_a_small_cluster_has_cards_and_no_map(tmp_path: Path) -> None:
    nodes = tuple(Node(f"n{at}", {"gpu": 4}) for at in range(2))
    with site(tmp_path, nodes=nodes) as it:
        it.desk.submit("train", gpus=2)
        it.desk.service.settle()
        page = it.visitor().page("/")
        assert ("data-map" in page, "map.js" in page, page.count('class="cells"')) == (False, False, 2)
        assert "n0 2 of 4 train-1" in words_of(page)
    with site(tmp_path / "large", nodes=tuple(Node(f"n{at}", {"gpu": 1}) for at in range(65))) as it:
        page = it.visitor().page("/")
        assert ("data-map" in page, 'class="cells"' in page) == (True, False)


def test_yours_lists_the_users_own_work_only(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        eve, bob = it.person("eve", "pool1-user", "pool2-user"), it.person("bob", "pool1-user", "pool2-user")
        it.desk.service.access.set_profile("eve", {"pool": "pool2"})
        for name, gpus in (("own", 2), ("more", 2)):
            submit(it.desk.service, one_task(name, gpus=gpus, duration=9e6), "pool1", "eve", Priority.NORMAL)
            it.desk.service.settle()
        it.desk.service.usage.step()

        def part(page: str) -> str:
            found = re.search(r'<div id="yours" data-live="/page/yours">(.*?)</section>', page, re.DOTALL)
            assert found is not None
            return words_of(f"<main {found[0]}")

        for path in ("/", "/page/yours"):
            assert re.search(
                r"own-1 RUNNING 2 GPUs .* n0 more-1 PENDING 2 GPUs – Guarantee P2 quota", part(eve.page(path))
            )
            assert "You have not submitted anything yet." in part(bob.page(path))
            assert "pool2 , your pool, in the last 24 hours" in words_of(eve.page(path))
            assert "pool1 in the last 24 hours" in words_of(bob.page(path))
        assert 'id="yours"' not in eve.get("/", **{"X-Page-Refresh": "1"}).text, (
            "it is shared by users with the same roles"
        )
