"""`runrig pool history` and `runrig pool show --at`: the tables, what is asked, and both against a server as a process."""

from typing import Any

import pytest

from runrig.domain.shown import PoolChange, PoolPast, PoolThen
from runrig.wire.base import example_of
from tests.cli.canned_server import answered, at, page, serving
from tests.worlds.command_line import lines

ROUTE, PAST = "GET /api/v1/pools/team/history", "GET /api/v1/pools/team/past"


@pytest.fixture(autouse=True)
def greenwich(monkeypatch: pytest.MonkeyPatch) -> None:
    """People read local times: here they live in Greenwich, in winter."""
    monkeypatch.setenv("TZ", "UTC")


def change(field: str, before: Any, after: Any, resource: str | None = None) -> dict[str, Any]:
    return {"field": field, "resource": resource, "before": before, "after": after}


def entry(what: list[str], *changes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return dict(example_of(PoolChange) | {"what": what, "changes": list(changes)} | fields)


def test_table_has_author_time_and_both_values() -> None:
    key = {"key": "rack", "label": "r"}
    answer = page(
        entry(["archived"], change("state", "DELETING", "ARCHIVED"), by="runrig", via="engine"),
        entry(["moved", "changed"], change("cohort", None, "org"), change("borrowing_limit", None, 0, "h100/gpu")),
        entry(["resized"], change("nominal", 30, 40, "default/gpu"), change("nominal", None, 2500, "default/cpu")),
        entry(["changed"], change("topology_keys", [], [key]), change("default_exit_actions", {"FAIL": "1"}, {})),
        entry(["unchanged"]),
        entry(
            ["created"],
            change("nominal", None, 30, "default/gpu"),
            change("lending_limit", None, 1 << 30, "default/memory"),
            by="bob",
            via="apply",
        ),
    )
    done = answered({ROUTE: answer}, "pool", "history", "team")
    assert (done.code, done.err) == (0, "")
    assert lines(done.out) == [
        "Time                 By           Pool     What            Changes",
        "-------------------  -----------  -------  --------------  ---------------------------------------------------------------",
        "2026-01-31 12:00:00  runrig       team--a  archived        state DELETING → ARCHIVED",
        "2026-01-31 12:00:00  ann          team--a  moved, changed  cohort none → org, borrowing limit h100/gpu none → 0",
        "2026-01-31 12:00:00  ann          team--a  resized         quota gpu 30 → 40, quota cpu none → 2.5",
        "2026-01-31 12:00:00  ann          team--a  changed         topology keys none → rack=r, default exit actions FAIL=1 → none",
        "2026-01-31 12:00:00  ann          team--a  unchanged       -",
        "2026-01-31 12:00:00  bob (apply)  team--a  created         quota gpu 30, lending limit memory 1Gi",
    ]


def test_filters_are_sent_to_the_server_and_a_printed_time_includes_its_second() -> None:
    with serving({ROUTE: page(entry(["resized"]))}) as server:
        args = ("--since", "2026-01-31 13:00:00", "--until", "2026-01-31 14:00:00", "--by", "ann", "--pool", "a")
        assert at(server, "pool", "history", "team", *args, "-n", "7").code == 0
        assert server.asked == [
            (
                ROUTE,
                [
                    ("since", "2026-01-31T13:00:00"),
                    ("until", "2026-01-31T14:00:00.999999"),
                    ("by", "ann"),
                    ("pool", "a"),
                    ("limit", "8"),
                ],
                None,
            )
        ]


def test_several_pages_are_fetched_and_the_rest_is_reported() -> None:
    pages = [(200, page(entry(["resized"]), following="x")), (200, page(entry(["moved"]), entry(["gone"])))]
    with serving({ROUTE: pages}) as server:
        done = at(server, "pool", "history", "team", "--limit", "2")
        assert [dict(query) for _, query, _ in server.asked] == [{"limit": "3"}, {"limit": "2", "cursor": "x"}]
    assert [line.split()[4] for line in lines(done.out)[2:4]] == ["resized", "moved"]
    assert lines(done.out)[4] == ("Older entries exist: use --limit 4, or --until with the time of the last line.")
    both = page(entry(["moved"]), entry(["resized"], seq=1))
    as_json = answered({ROUTE: both}, "pool", "history", "team", "--limit", "1", "-t", "json")
    shown = entry(["moved"], time="2026-01-31T12:00:00.250000")
    assert as_json.json == {"pool": "team", "entries": [shown], "next": "7.0"}
    whole = answered({ROUTE: page(entry(["moved"]))}, "pool", "history", "team", "-t", "json")
    assert whole.json == {"pool": "team", "entries": [shown], "next": None}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--by", "eve"), "nothing was changed in pool team by 'eve'\n"),
        (("--by", "\x1b[31meve"), "nothing was changed in pool team by '\\x1b[31meve'\n"),
        (("--pool", "a"), "nothing was changed in a of pool team\n"),
        (("--by", "eve", "--since", "2026-01-01"), "nothing was changed in pool team by 'eve' in that time\n"),
    ],
)
def test_empty_history_is_reported(args: tuple[str, ...], says: str) -> None:
    done = answered({ROUTE: page()}, "pool", "history", "team", *args)
    assert (done.code, done.out, done.err) == (0, says, "")


def test_pool_show_at_a_past_time_includes_subpools() -> None:
    def then(name: str, quota: int, unallocated: int, **fields: Any) -> dict[str, Any]:
        quotas = {"default": {"gpu": {"nominal": quota, "borrowing_limit": None, "lending_limit": 2}}}
        numbers = {"name": name, "quota": quota, "unallocated": unallocated, "quotas": quotas}
        return dict(example_of(PoolThen) | numbers | fields)

    def printed(pool: dict[str, Any], short: str | None, state: str | None) -> dict[str, Any]:
        changed = pool["changed"] | {"time": "2026-01-31T12:00:00.250000"}
        return pool | {"changed": changed, "subpool_name": short, "subpool_state": state}

    answer = example_of(PoolPast) | {
        "pool": then("team", 100, 70),
        "subpools": [
            then("team--a", 30, 30, parent="team"),
            then("team--b", 0, 0, parent="team", state="DELETING", quotas={}),
        ],
    }
    with serving({PAST: answer}) as server:
        done = at(server, "pool", "show", "team", "--at", "2026-01-31 12:00:00")
        assert [query for _, query, _ in server.asked] == [[("at", "2026-01-31T12:00:00.999999")]]
    assert (done.code, done.err) == (0, "")
    assert lines(done.out) == [
        "As of             2026-01-31 12:00:00",
        "Pool              team",
        "State             ACTIVE",
        "Cohort            research",
        "Queueing          BEST_EFFORT_FIFO",
        "Weight            1",
        "Grace             30s",
        "Flavors           all",
        "Topology keys     rack=topology.kubernetes.io/rack",
        "Default platform  default",
        "Last change       2026-01-31 12:00:00 by ann",
        "",
        "Pool     State     GPU Quota        Flavor/Resource  Quota  Borrowing Limit  Lending Limit",
        "-------  --------  ---------------  ---------------  -----  ---------------  -------------",
        "team     ACTIVE    70 (Total: 100)  default/gpu      100    none             2",
        "team--a  ACTIVE    30               default/gpu      30     none             2",
        "team--b  DELETING  0                -                none   none             none",
        "",
        "These are the declared settings; past usage (used, total and available) is not included.",
    ]
    as_json = answered({PAST: answer}, "pool", "show", "team", "--at", "2026-01-31", "-t", "json")
    assert as_json.json == {
        "at": "2026-01-31T12:00:00.250000",
        "note": "the declared settings; past usage (used, total and available) is not included",
        "pool": printed(answer["pool"], None, None),
        "subpools": [printed(answer["subpools"][0], "a", "ACTIVE"), printed(answer["subpools"][1], "b", "DELETING")],
    }
