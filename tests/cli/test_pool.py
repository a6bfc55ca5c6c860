"""`runrig pool`, `resource` and `apply`: the tables, and what is asked of the server."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.shown import DeclaredChange, Flavor, Node, Pool
from runrig.wire.base import example_of
from tests.cli.canned_server import answered, at, page, pool, refused, serving
from tests.worlds.command_line import lines, written
from tests.worlds.served import served
from tests.worlds.service import T0, one_task

VISION = example_of(Pool) | {"flavors": ["default"]}


def team(**state: str) -> dict[str, Any]:
    """The table of the specification: team with 100 GPUs, 90 of them in subpools."""

    def subpool(name: str, quota: int, used: int, subpool_state: str = "ACTIVE") -> dict[str, Any]:
        place = {"parent": "team", "state": subpool_state}
        return pool(f"team--{name}", quota=quota, unallocated=quota, used=used, available=quota - used, **place)

    names = ["team--a", "team--b", "team--c"]
    parent = pool("team", quota=100, unallocated=10, used=50, available=-40, subpools=names)
    children = [subpool("a", 30, 5), subpool("b", 40, 10), subpool("c", 20, 0, state.get("c", "ACTIVE"))]
    return page(parent, *children)


def listed(answer: dict[str, Any], *args: str) -> list[str]:
    done = answered({"GET /api/v1/pools": answer}, "pool", "list", *args)
    assert (done.code, done.err) == (0, "")
    return list(lines(done.out))


def test_sum_of_several_pools_counts_shared_nodes_once() -> None:
    both = page(
        pool("b", used=2, available=6, low=4, total=6, lent=2, capacity=16),
        pool("a", low=4, total=4, borrowed=1, capacity=16),
    )
    assert listed(both, "--wide") == [
        "Pool            Status         Subpool State  GPU Quota  Used  Available  LOW  Total  Borrowed  Lent  Capacity",
        "--------------  -------------  -------------  ---------  ----  ---------  ---  -----  --------  ----  --------",
        "a               ONLINE         -              8          0     8          4    4      1         0     16",
        "b               ONLINE         -              8          2     6          4    6      0         2     16",
        "--------------  -------------  -------------  ---------  ----  ---------  ---  -----  --------  ----  --------",
        "Sum                                           16         2     14         8    10     1         2     16",
    ]


WIDE = [
    "GPU Quota     Used                  Available  LOW                   Total                  Borrowed  Lent  Capacity",
    "------------  --------------------  ---------  --------------------  ---------------------  --------  ----  --------",
    "8             0                     8          0                     0                      0         0     16",
    "6 (Total: 8)  5 (With subpools: 7)  1          1 (With subpools: 4)  6 (With subpools: 11)  0         0     16",
    "2             2                     0          3                     5                      0         0     16",
    "------------  --------------------  ---------  --------------------  ---------------------  --------  ----  --------",
    "16            7                     9          4                     11                     0         0     16",
]


def test_wide_list_shows_parents_with_and_without_subpools() -> None:
    parent = pool("team", unallocated=6, used=5, low=1, subtree_used=7, total=11, available=1, subpools=["team--a"])
    child = pool("team--a", parent="team", quota=2, unallocated=2, used=2, low=3, subtree_used=2, total=5, available=0)
    assert [line[46:] for line in listed(page(parent, child, pool("b")), "--wide")] == WIDE


def test_mode_free_shows_what_is_left() -> None:
    assert listed(page(pool("a", available=-3)), "--mode", "free") == [
        "Pool            Status         Subpool State  Quota Free  Capacity Free",
        "--------------  -------------  -------------  ----------  -------------",
        "a               ONLINE         -              -3          10",
    ]


def test_shared_quota_is_shown_next_to_the_quota_of_the_pool() -> None:
    drawing = {"shared": {"lab": 4, "org": 2}, "drawn": 3, "shared_left": 1, "available": 0, "used": 11}
    assert listed(page(pool("a", **drawing))) == [
        "Pool            Status         Subpool State  GPU Quota                              Used  Available",
        "--------------  -------------  -------------  -------------------------------------  ----  ------------",
        "a               ONLINE         -              8 + 4 shared by lab + 2 shared by org  11    0 + 1 shared",
    ]
    shown = answered({"GET /api/v1/pools/a": pool("a", **drawing)}, "pool", "show", "a").out
    assert "Shared quota      4 by lab, 2 by org: draws 3, 1 left\n" in shown


def test_names_of_settings_keep_their_capitals() -> None:
    shown = answered({"GET /api/v1/pools/a": pool("a", user_gpus=4)}, "pool", "show", "a").out
    assert "Limit of GPUs per user  4\n" in shown


def test_archived_pools_are_shown_only_on_request() -> None:
    assert [line[:12] for line in listed(team(c="ARCHIVED"))[2:]] == ["team        ", "├─ team--a  ", "└─ team--b  "]
    assert len(listed(team(c="ARCHIVED"), "--all")) == 6


def test_status_of_a_top_level_pool_that_is_deleted_is_its_state() -> None:
    pools = [
        pool("a", state="DELETING"),
        pool("b", state="ARCHIVED"),
        pool("c"),
        pool("c--d", state="DELETING", parent="c"),
    ]
    assert [line.replace("└─ ", "").split()[1:3] for line in listed(page(*pools), "--all")[2:6]] == [
        ["DELETING", "-"],
        ["ARCHIVED", "-"],
        ["ONLINE", "-"],
        ["DELETING", "DELETING"],
    ]


def test_a_draining_pool_shows_its_remaining_usage() -> None:
    drains = {"state": "DELETING", "parent": "team"}
    rows = listed(page(pool("team--a", quota=0, held=30, used=5, available=-5, **drains)))
    assert rows[2] == "team--a         DELETING       DELETING       0 (Held: 30)  5     -5"


def test_empty_pool_list_says_how_to_create_a_pool() -> None:
    assert listed(page()) == ["No pools yet. Create one with `runrig pool create NAME --quota GPUS`."]


def test_pool_list_sends_its_options() -> None:
    with serving({"GET /api/v1/pools": page()}) as server:
        at(server, "pool", "list")
        at(server, "pool", "list", "-p", "a", "--pool", "b", "--all")
    assert [query for _, query, _ in server.asked] == [
        [("limit", "1000")],
        [("name", "a"), ("name", "b"), ("archived", "True"), ("limit", "1000")],
    ]


CREATE = [
    (["--quota", "8"], {"quota": 8}),
    (["--quota", "h100=8,b200=4"], {"quota": "h100=8,b200=4"}),
    (["--cohort", "c", "--borrowing-limit", "0"], {"cohort": "c", "borrowing_limit": 0}),
    (["--lending-limit", "none"], {"lending_limit": None}),
    (["--borrowing-limit", "h100=4,b200/cpu=none"], {"borrowing_limit": "h100=4,b200/cpu=none"}),
    (
        ["--topology-key", "zone=z/zone", "--topology-key", "rack=a=b"],
        {"topology_keys": [{"key": "zone", "label": "z/zone"}, {"key": "rack", "label": "a=b"}]},
    ),
    (["--flavor", "h100", "--queueing", "strict_fifo"], {"flavors": ["h100"], "queueing": "STRICT_FIFO"}),
    (["--weight", "2", "--description", ""], {"weight": 2, "description": ""}),
]


@pytest.mark.parametrize(("args", "body"), CREATE)
def test_pool_create_and_update_send_only_the_given_options(args: list[str], body: dict[str, Any]) -> None:
    answer, flavors = example_of(Pool), page(example_of(Flavor))
    answers = {"POST /api/v1/pools": (201, answer), "PATCH /api/v1/pools/p": answer, "GET /api/v1/flavors": flavors}
    with serving(answers) as server:
        assert at(server, "pool", "create", "p", *args, "-t", "json").code == 0
        assert at(server, "pool", "update", "p", *args, "-t", "json").code == 0
    assert [sent for _, _, sent in server.asked if sent] == [{"name": "p"} | body, body]


def quotas(**gpus: tuple[int, int | None, int | None]) -> dict[str, Any]:
    """Flavor → nominal, borrowing limit, lending limit of its GPUs."""
    names = ("nominal", "borrowing_limit", "lending_limit")
    return {flavor: {"gpu": dict(zip(names, numbers, strict=True))} for flavor, numbers in gpus.items()}


CHANGES = [
    ({"quotas": quotas(default=(2, None, None))}, "quota 8 → 2"),
    (
        {"quotas": quotas(default=(8, 4, 0)), "cohort": None, "queueing": "STRICT_FIFO"},
        "borrowing limit none → 4, lending limit none → 0, cohort research → none, queueing BEST_EFFORT_FIFO → STRICT_FIFO",
    ),
    (
        {"quotas": quotas(default=(8, None, None), h100=(4, 1, None))},
        "quota of h100/gpu 0 → 4, borrowing limit of h100/gpu none → 1",
    ),
    (
        {"topology_keys": [], "flavors": ["a", "b"], "weight": 2, "description": "for\nall"},
        "description Vision team → for all, weight 1 → 2, flavors all → a, b, "
        "topology keys rack=topology.kubernetes.io/rack → none",
    ),
    ({}, "no changes"),
]


@pytest.mark.parametrize(("after", "says"), CHANGES)
def test_pool_update_reports_changes_before_it_shows_the_pool(after: dict[str, Any], says: str) -> None:
    before = example_of(Pool) | {"weight": 1, "description": "Vision team"}
    answers = {"GET /api/v1/pools/vision": before, "PATCH /api/v1/pools/vision": before | after}
    done = answered(answers, "pool", "update", "vision", "--weight", "2")
    assert lines(done.out)[:2] == [f"pool vision: {says}", ""]
    assert lines(done.out)[2].split() == ["Pool", "vision"]


KEY = {"key": "rack", "label": "rack"}
LACKING = "Warning: label {} of topology key {} is missing on the only node. Gangs with topology requirements are not placed there"
REPLACED = "Warning: these topology keys replace rack=rack. Name all keys that the pool needs."


@pytest.mark.parametrize(
    ("before", "key", "said"),
    [
        ([KEY], "rack=rack", []),
        ([KEY], "zone=z", [REPLACED, LACKING.format("z", "zone")]),
        ([KEY], "rack=z", [REPLACED, LACKING.format("z", "rack")]),
        ([], "zone=z", [LACKING.format("z", "zone")]),
    ],
    ids=["the same", "another", "another label", "the first"],
)
def test_pool_update_warns_of_topology_keys_only_if_they_change(
    before: list[dict[str, str]], key: str, said: list[str]
) -> None:
    """No node has any label."""
    name, label = key.split("=")
    pool, keys = example_of(Pool) | {"topology_keys": before}, [{"key": name, "label": label}]
    maps = [{"all": {"nodes": 1}, "keys": keys, "apart": [{"lacks": [label]}]}]
    answers = {
        "GET /api/v1/pools/vision": pool,
        "PATCH /api/v1/pools/vision": pool | {"topology_keys": keys},
        "GET /api/v1/topology": {"maps": maps},
    }
    done = answered(answers, "pool", "update", "vision", "--topology-key", key)
    assert (done.code, done.err.splitlines()) == (0, said)
    assert ("no changes" in lines(done.out)[0]) == (before == keys)


def test_pool_create_reports_the_settings() -> None:
    plain: dict[str, Any] = {"quotas": {}, "cohort": None, "topology_keys": [], "default_platform": None}
    for answer, says in (
        (
            example_of(Pool),
            "created with quota 8, cohort research, topology keys rack=topology.kubernetes.io/rack, default platform default",
        ),
        (example_of(Pool) | plain, "created"),
    ):
        done = answered({"POST /api/v1/pools": answer}, "pool", "create", "vision")
        assert lines(done.out)[:2] == [f"pool vision: {says}", ""]


def test_a_pool_is_shown_with_its_balances() -> None:
    with serving({"GET /api/v1/pools/vision": example_of(Pool)}) as server:
        done = at(server, "pool", "show", "vision")
    assert lines(done.out) == [
        "Pool              vision",
        "State             ACTIVE",
        "Cohort            research",
        "Queueing          BEST_EFFORT_FIFO",
        "Weight            1",
        "Grace             30s",
        "Flavors           all",
        "Topology keys     rack=topology.kubernetes.io/rack",
        "Default platform  default",
        f"Overview          {server.url}/pool/vision",
        "",
        "Resource     Quota  Subtree  Guaranteed used  Preemptible used  Borrowed  Lent  Headroom  Limits",
        "-----------  -----  -------  ---------------  ----------------  --------  ----  --------  ------",
        "default/gpu  8      8        4                2                 0         2     10        none",
    ]


def test_over_committed_pool_is_marked() -> None:
    balances = {key: each | {"over": 2} for key, each in example_of(Pool)["balances"].items()}
    shown = answered({"GET /api/v1/pools/a": example_of(Pool) | {"balances": balances}}, "pool", "show", "a").out
    assert "State             ACTIVE (over-committed by 2 GPUs)\n" in shown


def test_name_cannot_change_the_path_of_the_url() -> None:
    with serving({}) as server:
        assert at(server, "pool", "show", "../../api/pool?x=1#").code == 2
        at(server, "pool", "show", "..pool?x=1#%2F")
    assert [each[:2] for each in server.asked] == [("GET /api/v1/pools/..pool%3Fx%3D1%23%252F", [])]


def test_pool_pause_and_resume_say_what_they_do(tmp_path: Path) -> None:
    """S8."""
    with served(tmp_path) as it:
        for name in ("a", "b", "c"):
            it.submit(one_task(name, gpus=2), "--pool", "pool1")
        it.desk.later(0)
        tried = it.runrig("pool", "pause", "pool1", "--until", "2h", "--dry-run")
        assert "pool1  2      2                2     0              2 -> 0   -" in tried.out
        assert "runrig pool pause pool1 --until 2h" in tried.out + tried.err
        paused = it.runrig("pool", "pause", "pool1", "--reason", "the disks are checked")
        assert paused.out == (
            "pool pool1 is paused: nothing new starts. 2 workflows wait, 1 workflow continues, and other pools can borrow its "
            "idle quota. Resume it with `runrig pool resume pool1`.\n"
        )
        assert lines(it.runrig("pool", "list").out)[2].split()[:2] == ["pool1", "PAUSED"]
        assert f"by ann at {naive(T0)} (the disks are checked)" in it.runrig("pool", "show", "pool1").out
        it.desk.later(200)
        resumed = it.runrig("pool", "resume", "pool1").out
        assert resumed.startswith("pool pool1 starts workflows again\n\nPool ")
        assert resumed.endswith("\nstarts          b-1 (pool1, NORMAL, 2 GPUs) on n0\n")
        again = it.runrig("pool", "resume", "pool1")
        assert (again.code, again.err) == (1, "Error: pool pool1 is not paused\n")


def test_pool_pause_until_a_time_ends_by_itself_also_after_a_restart(tmp_path: Path) -> None:
    end = naive(T0 + 7200)
    with served(tmp_path) as it:
        done = it.runrig("pool", "pause", "pool1", "--until", f"{end}Z")
        shown = datetime.fromtimestamp(T0 + 7200, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        assert done.out.startswith(f"pool pool1 is paused until {shown}:00: nothing new starts. 0 workflows wait, ")
        assert f"PAUSED until {shown}" in it.runrig("pool", "list").out
        assert f"by ann at {naive(T0)} until {end}" in it.runrig("pool", "show", "pool1").out
        assert it.json("pool", "show", "pool1")["paused_until"] == end
        waits = it.submit(one_task("waits"), "--pool", "pool1")
    with served(tmp_path, time=T0 + 7199, cluster=None) as it:
        it.desk.later(0)
        assert it.desk.status(waits) == "PENDING"
        it.desk.later(1)
        assert (it.desk.status(waits), it.json("pool", "show", "pool1")["paused_until"]) == ("RUNNING", None)
        wrong = it.runrig("pool", "pause", "pool1", "--until", "friday")
        assert (wrong.code, wrong.out) == (2, "")
        assert "'friday' is not a time. Use a duration from now, such as 90m or 2h" in wrong.err


def naive(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat()


def test_pool_delete_prints_the_state_and_does_not_prompt_in_a_script() -> None:
    example = example_of(Pool)
    drains = example | {"state": "DELETING", "gpus": example["gpus"] | {"held": 8}}
    done = answered({"DELETE /api/v1/pools/vision": {"pool": drains, "cancelled": []}}, "pool", "delete", "vision")
    assert (done.code, done.out) == (
        0,
        "pool vision is DELETING: 1 workflow with 6 GPUs still runs there, and it keeps 8 GPUs until it has ended\n",
    )
    archived = {"pool": example | {"state": "ARCHIVED"}, "cancelled": []}
    done = answered({"DELETE /api/v1/pools/vision": archived}, "pool", "delete", "vision")
    assert (done.code, done.out) == (0, "pool vision is ARCHIVED: nothing runs there\n")


def test_resource_list_has_a_row_per_node() -> None:
    down = example_of(Node) | {"name": "n01", "ready": False, "conditions": ["NotReady"], "flavor": "b200"}
    answers = {"GET /api/v1/nodes": page(example_of(Node), down), "GET /api/v1/pools": page(VISION)}
    assert lines(answered(answers, "resource", "list").out) == [
        "Node  State     Flavor   Pools   GPUs  CPU   Memory",
        "----  --------  -------  ------  ----  ----  --------",
        "n00   Ready     default  vision  1/2   4/96  16Gi/1Ti",
        "n01   NotReady  b200     -       1/2   4/96  16Gi/1Ti",
    ]
    assert lines(answered(answers, "resource", "list", "--mode", "free").out)[2:] == [
        "n00   Ready     default  vision  1     92   1008Gi",
        "n01   NotReady  b200     -       1     92   1008Gi",
    ]


def test_state_and_taints_show_why_a_node_accepts_no_pods() -> None:
    node = example_of(Node) | {
        "conditions": ["Ready", "Tainted"],
        "taints": [
            {"key": "team", "value": "sim", "effect": "NoSchedule"},
            {"key": "broken", "value": "", "effect": "NoExecute"},
        ],
    }
    answers = {"GET /api/v1/nodes": page(node), "GET /api/v1/nodes/n00": node, "GET /api/v1/pools": page(VISION)}
    assert lines(answered(answers, "resource", "list").out)[2] == "n00   Tainted  default  vision  1/2   4/96  16Gi/1Ti"
    said = lines(answered(answers, "resource", "info", "n00").out)
    assert [line for line in said if line.startswith(("State", "Taint"))] == [
        "State                              Tainted",
        "Taint team                         sim:NoSchedule",
        "Taint broken                       NoExecute",
    ]


def test_node_without_a_flavor_is_shown_as_such() -> None:
    node = example_of(Node) | {"conditions": ["Ready", "NoFlavor"], "flavor": ""}
    answers = {"GET /api/v1/nodes": page(node), "GET /api/v1/nodes/n00": node, "GET /api/v1/pools": page(VISION)}
    assert lines(answered(answers, "resource", "list").out)[2] == "n00   NoFlavor  -       -      1/2   4/96  16Gi/1Ti"
    said = lines(answered(answers, "resource", "info", "n00").out)
    assert [line.split() for line in said[:3]] == [["Node", "n00"], ["State", "NoFlavor"], ["GPUs", "used", "1/2"]]


def test_resource_info_shows_the_user_of_each_gpu() -> None:
    answers = {"GET /api/v1/nodes/n00": example_of(Node), "GET /api/v1/pools": page(VISION)}
    done = answered(answers, "resource", "info", "n00")
    assert lines(done.out)[-6].split()[0] == "Overview"
    assert lines(done.out)[-6].endswith("/node/n00")
    assert lines(done.out)[-4:] == [
        "GPU  Workflow  Task",
        "---  --------  ----",
        "0    train-1   main",
        "1    free      -",
    ]


def test_apply_prints_each_change_with_its_differences(tmp_path: Path) -> None:
    file = written(tmp_path, "pools: [{name: a}]\n", "cluster.yaml")
    changes = [
        example_of(DeclaredChange),
        {
            "action": "update",
            "kind": "pool",
            "name": "keys",
            "before": {"topology_keys": []},
            "after": {"topology_keys": [{"key": "rack", "label": "example.org/rack"}]},
        },
        {"action": "create", "kind": "cohort", "name": "new", "before": None, "after": {}},
        {"action": "delete", "kind": "pool", "name": "old", "before": {}, "after": None},
        {"action": "unchanged", "kind": "pool", "name": "same", "before": {}, "after": {}},
        {"action": "keep", "kind": "cohort", "name": "org", "before": {}, "after": {}},
    ]
    with serving({"POST /api/v1/apply": {"changes": changes, "applied": False}}) as server:
        done = at(server, "apply", "-f", file, "--dry-run")
        at(server, "apply", "-f", "-", "--prune", stdin="pools: []\n")
    assert lines(done.out) == [
        "~ pool vision",
        "    quotas.default.gpu.nominal: 4 -> 8",
        "~ pool keys",
        "    topology_keys: none -> rack=example.org/rack",
        "+ cohort new",
        "- pool old",
        "! cohort org is kept: it has children that are not in the file",
        "4 would change, 2 unchanged",
    ]
    assert [body for _, _, body in server.asked] == [
        {"file": "pools: [{name: a}]\n", "prune": False, "dry_run": True, "force": False},
        {"file": "pools: []\n", "prune": True, "dry_run": False, "force": False},
    ]


def test_error_in_a_cluster_file_has_its_position(tmp_path: Path) -> None:
    file = written(tmp_path, "pools: 5\n", "cluster.yaml")
    problem = {"message": "pools is a list", "path": "pools", "line": 1, "column": 8}
    done = answered({"POST /api/v1/apply": (422, refused("x", "USAGE", problems=[problem]))}, "apply", "-f", file)
    assert (done.code, done.err) == (2, f"{file}:1:8: pools is a list\n")
