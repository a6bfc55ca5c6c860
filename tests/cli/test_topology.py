"""`runrig topology show`: the tree and its bars, what is asked, and a real cluster as the docs show it."""

import json
import os
import subprocess
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runrig.cli.rendering import topology_map
from runrig.domain.shown.topology import Holder, TopologyAnswer
from runrig.wire.base import example_of
from runrig.wire.json import read
from tests.cli.canned_server import answered, at, refused, serving
from tests.cli.test_end_to_end import submitted
from tests.worlds.command_line import Up, lines, process, runrig, up


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs tests side by side may say how wide its own terminal is."""
    monkeypatch.delenv("COLUMNS", raising=False)


ROUTE = "GET /api/v1/topology"
ROOT = Path(__file__).parent.parent.parent
ZONE, RACK = {"key": "zone", "label": "z"}, {"key": "rack", "label": "r"}


def gpus(free: int = 0, firm: int = 0, low: int = 0, changing: int = 0, cordoned: int = 0) -> dict[str, int]:
    parts = {"free": free, "firm": firm, "low": low, "changing": changing, "cordoned": cordoned}
    return {"total": sum(parts.values()), **parts}


def fit(now: int, after_low: int, ever: int) -> dict[str, int]:
    return {"now": now, "after_low": after_low, "ever": ever}


def holder(gang: str, gpus: int, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = example_of(Holder)
    return answer | {"gang": gang, "gpus": gpus, **more}


def domain(level: str | None, path: str, has: dict[str, int], *domains: Any, **more: Any) -> dict[str, Any]:
    """*path*: its values, with blanks between.  Of one node, unless *more* says otherwise."""
    idle: dict[str, Any] = {"state": None, "nodes": 1, "cordoned_nodes": 0, "flavors": {}, "gangs": None, "holders": []}
    idle |= {"others": {"gangs": 0, "gpus": 0}}
    return {"level": level, "path": path.split(), "gpus": has, **idle, "domains": list(domains), **more}


def found(whole: dict[str, Any], *levels: dict[str, Any], **more: Any) -> dict[str, Any]:
    keys = [{name: each[name] for name in ("key", "label")} for each in levels]
    return {"pools": ["vision"], "keys": keys, "flavors": ["default"], "levels": list(levels), "all": whole} | (
        {"apart": []} | more
    )


def page(*maps: dict[str, Any], size: Any = None) -> dict[str, Any]:
    answer = {"size": size, "maps": list(maps)}
    read(TopologyAnswer, answer)
    return answer


def drawn(answer: dict[str, Any], *args: str, columns: int | None = None) -> list[str]:
    with serving({ROUTE: answer}) as server:
        env = {} if columns is None else {"COLUMNS": str(columns)}
        done = runrig("--server", server.url, "topology", "show", *args, env=env)
    assert (done.code, done.err) == (0, "")
    return list(lines(done.out))


LEGEND = "█ HIGH and NORMAL  ▒ LOW  ~ stopping or reserved  x free, but cordoned  · free"
WHAT_FITS = [
    "Now        on free GPUs",
    "After LOW  once all LOW workflows are preempted and stopping ones have ended",
    "Ever       on empty nodes, with all nodes ready",
    "Only GPUs are counted. Quota, CPU and memory may allow fewer.",
]


def busy(*, sized: bool = True, **more: Any) -> dict[str, Any]:
    """A zone with two racks, one of them with all that a bar can show."""

    def gangs(*numbers: int) -> dict[str, Any]:
        return {"gangs": fit(*numbers) if sized else None}

    firm, low = holder("train-1/main", 8), holder("sweep-1/main", 4, priority="LOW")
    stops = holder("old-1/main", 2, priority="LOW", state="STOPPING")
    full = {"nodes": 3, "cordoned_nodes": 1, "holders": [firm, low, stops], "others": {"gangs": 4, "gpus": 2}}
    racks = (
        domain("rack", "a r10", gpus(2, 8, 4, 2, 8), **full, **gangs(0, 1, 6)),
        domain("rack", "a r9", gpus(8), **gangs(2, 2, 2)),
    )
    both = {"nodes": 4, "cordoned_nodes": 1, "holders": [firm, low], **gangs(2, 3, 8)}
    zone = domain("zone", "a", gpus(10, 8, 4, 2, 8), *racks, **both)
    whole = domain(None, "", gpus(10, 8, 4, 2, 8), zone, **both)
    return found(whole, {**ZONE, "domains": 1, **gangs(2, 3, 8)}, {**RACK, "domains": 2, **gangs(2, 3, 8)}, **more)


SIZE = {"pods": 1, "gpus": 4}


def test_tree_has_a_bar_and_the_users_of_each_domain() -> None:
    """Numbers in names count: r9 before r10.  What is there at all has a mark in the bar, and marks are in proportion."""
    assert drawn(page(busy(sized=False))) == [
        "zone > rack of pool vision",
        "",
        "Domain     Nodes  Cordoned  GPUs Free  Use                       Held By",
        "---------  -----  --------  ---------  ------------------------  --------------------------------------------------",
        "all nodes  4      1         10/32      ██████▒▒▒~~xxxxxx·······  train-1 8, sweep-1 4 LOW",
        "└─ a       4      1         10/32      ██████▒▒▒~~xxxxxx·······  train-1 8, sweep-1 4 LOW",
        "   ├─ r9   1      -         8/8        ························  -",
        "   └─ r10  3      1         2/24       ████████▒▒▒▒~~xxxxxxxx··  train-1 8, sweep-1 4 LOW, old-1 2 LOW STOPPING, +4",
        "",
        LEGEND,
    ]


def test_fitting_gangs_are_shown_per_domain_and_in_total() -> None:
    assert drawn(page(busy(), size=SIZE)) == [
        "zone > rack of pool vision",
        "",
        "Domain     Nodes  Cordoned  GPUs Free  Use                       Now  After LOW  Ever  Held By",
        "---------  -----  --------  ---------  ------------------------  ---  ---------  ----  ----------------------------",
        "all nodes  4      1         10/32      ██████▒▒▒~~xxxxxx·······  2    3          8     train-1 8, sweep-1 4 LOW",
        "└─ a       4      1         10/32      ██████▒▒▒~~xxxxxx·······  2    3          8     train-1 8, sweep-1 4 LOW",
        "   ├─ r9   1      -         8/8        ························  2    2          2     -",
        "   └─ r10  3      1         2/24       ████████▒▒▒▒~~xxxxxxxx··  0    1          6     train-1 8, sweep-1 4 LOW, +5",
        "",
        "Gangs of 1 pod x 4 GPUs  Now  After LOW  Ever",
        "-----------------------  ---  ---------  ----",
        "anywhere                 2    3          8",
        "each in one zone         2    3          8",
        "each in one rack         2    3          8",
        "",
        LEGEND,
        *WHAT_FITS,
    ]


@pytest.mark.parametrize(
    ("sized", "columns", "line"),
    [
        (False, 80, "   └─ r10  3      1         2/24       ██████▒▒▒~~xxxxxx··  train-1 8, +6"),
        (False, 72, "   └─ r10  3      1         2/24       ████▒▒~xxx·  train-1 8, +6"),
        (False, 68, "   └─ r10  3      1         2/24       ████████▒▒▒▒~~xxxxxxxx··"),
        (True, 80, "   └─ r10  3      1         2/24       ██████▒▒▒~~xxxxxx··  0    1          6"),
        (True, 20, "   └─ r10  2/24       ███▒▒~xxx·  0    1          6"),
    ],
)
def test_map_is_as_wide_as_the_terminal_and_bars_stay_readable(sized: bool, columns: int, line: str) -> None:
    shown = drawn(page(busy(sized=sized), size=SIZE if sized else None), columns=columns)
    assert line in shown
    if columns > 20:
        assert [each for each in shown[:8] if len(each) > columns] == []


def test_every_bar_is_complete() -> None:
    one_of_many = found(
        domain(None, "", gpus(10_000, 1, 1, 1, 1), domain("zone", "a", gpus(0, 1))),
        {**ZONE, "domains": 1, "gangs": None},
    )
    rows = drawn(page(one_of_many))[4:6]
    assert [each.split()[-2] for each in rows] == ["█▒~x" + "·" * 20, "█" * 24]
    nothing = found(domain(None, "", gpus()), {**ZONE, "domains": 0, "gangs": None})
    assert drawn(page(nothing))[4] == "all nodes  1      0/0        -    -"


def many(count: int, per_zone: int) -> dict[str, Any]:
    racks = [domain("rack", f"a r{at}", gpus(1)) for at in range(count)]
    zones = [
        domain("zone", f"z{at}", gpus(per_zone), *racks[at : at + per_zone], nodes=per_zone)
        for at in range(0, count, per_zone)
    ]
    levels = ({**ZONE, "domains": len(zones), "gangs": None}, {**RACK, "domains": count, "gangs": None})
    return found(domain(None, "", gpus(count), *zones, nodes=count), *levels)


def test_omitted_finer_levels_are_reported() -> None:
    most = topology_map.MOST_ROWS
    whole = drawn(page(many(most - 1, most - 1)))
    assert len(whole) == 4 + 1 + 1 + (most - 1) + 2
    cut = drawn(page(many(most + 4, 8)))
    assert len(cut) == 4 + 1 + 8 + 1 + 2
    assert cut[-3] == "not shown: 64 of rack. Use --level rack to see them, --nodes to see nodes too"
    assert len(drawn(page(many(most + 4, 8)), "--level", "rack")) == 4 + 1 + 8 + 64 + 2
    assert len(drawn(page(many(3 * most, 1)))) == 4 + 1 + 3 * most + 1 + 2, "the coarsest level is always there"


def test_nodes_of_a_pool_without_keys_are_a_flat_list() -> None:
    nodes = [
        domain(None, "n10", gpus(8), state="Ready"),
        domain(None, "n2", gpus(cordoned=8), state="NotReady", cordoned_nodes=1),
        domain(None, "n3", gpus(cordoned=8), state="Tainted", cordoned_nodes=1),
    ]
    plain = found(domain(None, "", gpus(8, cordoned=16), *nodes, nodes=3, cordoned_nodes=2), pools=["batch"])
    head = "pool batch has no topology keys: pods may be placed anywhere; topology requests are not available"
    assert drawn(page(plain)) == [
        head,
        "",
        "Domain            Nodes  Cordoned  GPUs Free  Use                       Held By",
        "----------------  -----  --------  ---------  ------------------------  -------",
        "all nodes         3      2         8/24       xxxxxxxxxxxxxxxx········  -",
        "├─ n2 (NotReady)  1      1         0/8        xxxxxxxxxxxxxxxxxxxxxxxx  -",
        "├─ n3 (Tainted)   1      1         0/8        xxxxxxxxxxxxxxxxxxxxxxxx  -",
        "└─ n10            1      -         8/8        ························  -",
        "",
        LEGEND,
    ]
    beside = drawn(page(busy(sized=False), plain))
    assert beside[9] == head
    assert beside[14:16] == ["3 nodes are not shown. Use --nodes to see them", ""]
    assert drawn(page(busy(sized=False), plain), "--nodes")[14:16] == [
        "├─ n2 (NotReady)  1      1         0/8        xxxxxxxxxxxxxxxxxxxxxxxx  -",
        "├─ n3 (Tainted)   1      1         0/8        xxxxxxxxxxxxxxxxxxxxxxxx  -",
    ]
    lots = [domain(None, f"n{at}", gpus(1), state="Ready") for at in range(100)]
    flat = page(found(domain(None, "", gpus(100), *lots, nodes=100), pools=["batch", "other"]))
    assert drawn(flat)[0].startswith("pools batch, other have no topology keys")
    assert drawn(flat)[-4:-2] == [
        "└─ n59     1      1/1        ························  -",
        "40 nodes are not shown. Use --nodes to see them",
    ]
    assert len(drawn(flat, "--nodes")) == 4 + 1 + 100 + 2


def test_flavors_have_a_column_if_there_are_several() -> None:
    by_flavor = {"h100": gpus(8, 8), "b200": gpus(4)}
    mixed = found(
        domain(None, "", gpus(12, 8), domain("zone", "a", gpus(12, 8), flavors=by_flavor), flavors=by_flavor),
        {**ZONE, "domains": 1, "gangs": None},
        flavors=["b200", "h100"],
    )
    assert drawn(page(mixed))[2:5] == [
        "Domain     Nodes  GPUs Free  By Flavor            Use                       Held By",
        "---------  -----  ---------  -------------------  ------------------------  -------",
        "all nodes  1      12/20      b200 4/4, h100 8/16  ██████████··············  -",
    ]


def test_nodes_without_a_label_are_listed_separately() -> None:
    def apart(count: int) -> list[dict[str, Any]]:
        return [
            {"lacks": ["z", "r"], "node": domain(None, f"n{at}", gpus(4), state="NotReady" if at == 2 else "Ready")}
            for at in range(count)
        ]

    shown = drawn(page(busy(sized=False, apart=apart(3))))
    assert shown[9:] == [
        "Nodes without the labels of the topology keys; gangs with topology requirements cannot use them (rule T1):",
        "Node           GPUs Free  Lacks",
        "-------------  ---------  -----",
        "n0             4/4        z, r",
        "n1             4/4        z, r",
        "n2 (NotReady)  4/4        z, r",
        "",
        LEGEND,
    ]
    most = topology_map.MOST_APART
    assert drawn(page(busy(sized=False, apart=apart(most + 5))))[-3] == "and 5 more (use --nodes to see them)"
    assert "n24            4/4        z, r" in drawn(page(busy(sized=False, apart=apart(most + 5))), "--nodes")


def test_long_list_of_pools_is_cut() -> None:
    names = [f"p{at}" for at in range(10)]
    assert drawn(page(busy(pools=names)))[0] == "zone > rack of pools p0, p1, p2, p3, p4, p5, p6, p7 and 2 more"


def test_request_is_exact_and_json_is_unchanged() -> None:
    answer = page(busy(), size=SIZE)
    with serving({ROUTE: answer}) as server:
        at(server, "topology", "show")
        at(server, "topology", "show", "--pool", "vision", "--size", "1x4", "--level", "rack")
        done = at(server, "topology", "show", "-p", "vision", "--nodes", "-t", "json")
        assert [query for _, query, _ in server.asked] == [
            [],
            [("pool", "vision"), ("size", "1x4"), ("level", "rack")],
            [("pool", "vision"), ("nodes", "True")],
        ]
    assert done.json == answer


def test_refusal_of_the_server_is_shown() -> None:
    no_size = refused("invalid size '8by8'", "USAGE")
    done = answered({ROUTE: (422, no_size)}, "topology", "show", "--size", "8by8")
    assert (done.code, done.out, done.err) == (2, "", "Error: invalid size '8by8'\n")
    assert drawn(page()) == ["No pools yet. Create one with `runrig pool create NAME --quota GPUS`."]


def test_no_control_character_is_printed() -> None:
    zone = domain("zone", "\x1b[31ma", gpus(8), holders=[holder("\x1b]0;x\x07w-1/g", 1)])
    evil = found(domain(None, "", gpus(8), zone), {**ZONE, "domains": 1, "gangs": None}, pools=["\x1b[2Jp"])
    with serving({ROUTE: page(evil)}) as server:
        done = at(server, "topology", "show")
    assert "\x1b" not in done.out
    assert "└─ a       1      8/8        ························  w-1 1\n" in done.out


def on_terminal(answer: dict[str, Any], columns: int, **environment: str) -> list[str]:
    """What a terminal of so many columns gets."""
    mine, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    with serving({ROUTE: answer}) as server:
        command = process("--server", server.url, "topology", "show")
        env = {**kept, "TERM": "xterm", **environment}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=theirs, check=False)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Linux reports a closed terminal like this
        while piece := os.read(mine, 1 << 16):
            shown += piece
    os.close(mine)
    assert done.returncode == 0
    return shown.decode().replace("\r\n", "\n").split("\n")


@pytest.mark.slow
def test_output_fits_the_terminal_and_has_colours_unless_disabled() -> None:
    line = "   └─ r10  3      1         2/24       {}~~xxxxxx{}  train-1 8, +6"
    coloured = on_terminal(page(busy(sized=False)), 80)[7]
    assert coloured == line.format("\x1b[34m██████\x1b[0m\x1b[33m▒▒▒\x1b[0m", "\x1b[32m··\x1b[0m")
    assert on_terminal(page(busy(sized=False)), 80, NO_COLOR="1")[7] == line.format("██████▒▒▒", "··")


# ---------------------------------------------------------------- a real server


def work(name: str, pods: int, gpu: int, key: str | None) -> str:
    near = {"topology": [{"key": key}]} if key else {}
    main = {"name": "main", "image": "any", "command": ["run"], "count": pods, "duration": 100000}
    return json.dumps({"workflow": {"name": name, "resources": {"default": {"gpu": gpu, **near}}, "tasks": [main]}})


def run(server: Up, pool: str, priority: str, text: str) -> None:
    id = submitted(server, text, "--pool", pool, "--priority", priority)
    assert server.runrig("workflow", "wait", id, "--for", "RUNNING").code == 0


@pytest.mark.slow
def test_a_real_cluster_is_drawn_as_on_the_page_of_the_docs(tmp_path: Path) -> None:
    cluster = str(ROOT / "examples" / "clusters" / "small.yaml")
    with up(tmp_path / "data", "--backend", "simulated", "--cluster", cluster) as server:
        run(server, "team-a", "NORMAL", work("train", 4, 8, "rack"))
        run(server, "team-b", "NORMAL", work("vision", 3, 6, "rack"))
        run(server, "team-b", "LOW", work("sweep", 8, 4, "zone"))
        run(server, "team-a", "LOW", work("eval", 2, 3, None))
        shown = server.runrig("topology", "show", "--pool", "team-a", "--size", "20")
        answer = server.json("topology", "show", "--pool", "team-a", "--size", "20", "--nodes")
        unknown = server.runrig("topology", "show", "--pool", "team-z")
    assert (shown.code, shown.err) == (0, "")
    assert f"$ runrig topology show --pool team-a --size 20\n{shown.out}```" in (
        ROOT / "docs" / "topology.md"
    ).read_text(encoding="utf-8")
    (found,) = answer["maps"]
    racks = [rack for zone in found["all"]["domains"] for spine in zone["domains"] for rack in spine["domains"]]
    assert [(rack["path"], len(rack["domains"])) for rack in racks] == [
        (["z0", "s0", "r0"], 4),
        (["z0", "s0", "r1"], 4),
        (["z1", "s1", "r2"], 4),
        (["z1", "s1", "r3"], 4),
    ]
    assert racks[0]["holders"] == [
        {
            "gang": "train-1/main-group",
            "pool": "team-a",
            "priority": "NORMAL",
            "state": "ADMITTED",
            "pods": 4,
            "gpus": 32,
        }
    ]
    assert (unknown.code, unknown.err) == (2, "Error: unknown pool 'team-z'. Did you mean 'team-a' or 'team-b'?\n")
