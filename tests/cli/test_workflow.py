"""`runrig workflow`: submitting, asking, waiting, watching."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.shown import (
    ForeseenStart,
    LogRecord,
    Me,
    PoolWhy,
    TriedDial,
    WorkflowEvent,
    WorkflowHeadline,
    WorkflowTimes,
    WorkflowWhy,
    WouldStart,
)
from runrig.wire import v1
from runrig.wire.base import example_of
from tests.cli.canned_server import SUBMITTED, answered, at, entry, page, refused, serving, task, workflow
from tests.worlds.command_line import Done, lines, runrig, written

FILE = "workflow:\n  name: train\n  tasks: [{name: main, image: ubuntu, command: [sleep, '5']}]\n"
SUBMIT, CHECK = "POST /api/v1/workflows", "POST /api/v1/workflows:check"
CHECKED = v1.WorkflowChecked.example() | {"file": FILE}
WHY = example_of(WorkflowWhy)
TIMES = example_of(WorkflowTimes)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """People read local times: here they live in Greenwich, in winter."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# ---------------------------------------------------------------- submit


def test_submit_prints_the_id_and_the_next_commands(tmp_path: Path) -> None:
    done = answered({SUBMIT: SUBMITTED}, "workflow", "submit", written(tmp_path, FILE), "--pool", "p")
    assert (done.code, done.err) == (0, "")
    assert done.out == "train-1 is submitted. Follow it: runrig attach train-1\n"


def test_submit_sends_every_option() -> None:
    options = ["--priority", "low", "--set", "a=1", "--set-string", "b=2", "--set-env", "K=v=w", "--set-env", "L="]
    options += ["--retry", "3:75"]
    with serving({SUBMIT: SUBMITTED}) as server:
        assert at(server, "workflow", "submit", "-", "--pool", "p", *options, stdin=FILE).code == 0
    assert server.asked == [
        (
            SUBMIT,
            [],
            {
                "pool": "p",
                "priority": "LOW",
                "environment": {"K": "v=w", "L": ""},
                "retry": "3:75",
                "file": FILE,
                "variables": ["a=1"],
                "string_variables": ["b=2"],
            },
        )
    ]


def test_a_dry_run_prints_the_rendered_file_and_says_whether_it_would_start() -> None:
    answer = CHECKED | {"warnings": ["image is ignored"]}
    done = answered({CHECK: answer}, "workflow", "submit", "-", "--pool", "p", "--dry-run", stdin=FILE)
    assert (done.code, done.out, done.err) == (0, FILE, "would start now on node-1\nWarning: image is ignored\n")


def test_submit_uses_the_only_pool_by_default() -> None:
    with serving(
        {"GET /api/v1/me": example_of(Me) | {"pools": ["p", "q"], "default_pool": "p"}, SUBMIT: SUBMITTED}
    ) as server:
        assert at(server, "workflow", "submit", "-", stdin=FILE).code == 0
    assert [(route, body and body["pool"]) for route, _, body in server.asked] == [
        ("GET /api/v1/me", None),
        (SUBMIT, "p"),
    ]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            ["b", "a"],
            "you can submit to 2 pools (a, b). Choose one with --pool, or set a default with `runrig pool default POOL`",
        ),
        (
            [],
            "you cannot submit to any pool. An administrator can create one with `runrig pool create NAME --quota GPUS`, "
            "or grant you a role.",
        ),
    ],
)
def test_submit_needs_a_pool_if_there_are_several_or_none(names: list[str], says: str) -> None:
    me = example_of(Me) | {"pools": names, "default_pool": None}
    done = answered({"GET /api/v1/me": me}, "workflow", "submit", "-", stdin=FILE)
    assert (done.code, done.err) == (2, f"Error: {says}\n")


def test_refusal_has_the_rule_and_its_numbers() -> None:
    answers = {SUBMIT: (400, refused("train-1/main-group asks 9 GPUs; pool p has quota 8", "RESOURCE", law="P3"))}
    with serving(answers) as server:
        text = at(server, "workflow", "submit", "-", "-p", "p", stdin=FILE)
        json = at(server, "workflow", "submit", "-", "-p", "p", "-t", "json", stdin=FILE)
    assert (text.code, text.err) == (1, "Error: train-1/main-group asks 9 GPUs; pool p has quota 8 (Gate, rule P3)\n")
    assert json.json == {
        "message": "train-1/main-group asks 9 GPUs; pool p has quota 8",
        "code": "RESOURCE",
        "details": {"law": "P3"},
    }


def test_a_file_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    def said(name: str) -> str:
        done = runrig("workflow", "submit", name, "--pool", "p")
        assert (done.code, done.out) == (2, "")
        return done.err

    (tmp_path / "binary").write_bytes(b"workflow: \xff")
    (tmp_path / "huge").write_bytes(b"#" * (2 * 1024 * 1024 + 1))
    assert said("missing.yaml") == "Error: missing.yaml: no such file\n"
    assert said(str(tmp_path)) == f"Error: {tmp_path} is a folder. Name a file.\n"
    assert said(f"{tmp_path}/binary") == f"Error: {tmp_path}/binary is not UTF-8 text: byte 11 is 0xff\n"
    assert (
        said(f"{tmp_path}/huge") == f"Error: {tmp_path}/huge is larger than 2 MiB. Check that it is the right file.\n"
    )
    assert said("/dev/zero") == "Error: /dev/zero is larger than 2 MiB. Check that it is the right file.\n"
    assert said("nul\0") == "Error: nul\0 cannot be read: embedded null byte\n".replace("\0", "")


@pytest.mark.parametrize("option", ["--set", "--set-string", "--set-env"])
def test_a_setting_without_a_name_is_wrong_usage(option: str) -> None:
    for value in ("novalue", "=x", " =x"):
        done = runrig("workflow", "submit", "-", option, value, stdin=FILE)
        assert done.code == 2
        assert f"{value!r} is not KEY=VALUE" in done.err


def test_validate_without_a_pool_needs_no_server(tmp_path: Path) -> None:
    good, bad = written(tmp_path, FILE), written(tmp_path, FILE.replace("image:", "imge:"), "bad.yaml")
    nowhere = ["--server", "http://127.0.0.1:1", "workflow", "validate"]
    assert (runrig(*nowhere, good).code, runrig(*nowhere, good).out) == (0, f"{good} is valid\n")
    done = runrig(*nowhere, bad)
    assert done.code == 2
    assert re.search(re.escape(bad) + r":3:24: .*'imge'", done.err)


def test_validate_with_a_pool_asks_the_server() -> None:
    with serving({CHECK: CHECKED}) as server:
        done = at(server, "workflow", "validate", "-", "--pool", "p", stdin=FILE)
        json = at(server, "workflow", "validate", "-", "--pool", "p", "-t", "json", stdin=FILE).json
    assert (done.code, done.out) == (0, "<stdin> is valid in pool p\n")
    assert json == VALID


VALID: dict[str, Any] = {
    "name": "train-?",
    "overview": None,
    "logs": "train would be accepted",
    "spec": None,
    "warnings": [],
    "dashboard_url": None,
}
CLUSTER = """
backend: {type: simulated}
nodes: [{name: n0, resources: {gpu: 8}}]
pools: [{name: a, quota: 2}, {name: b, quota: {gpu: {nominal: 2, borrowing_limit: 1}}}]
"""


def gpus(count: int, *, name: str = "main") -> str:
    task = f"{{name: {name}, image: any, command: [ls], resource: big}}"
    return f"workflow: {{name: train, tasks: [{task}], resources: {{big: {{gpu: {count}}}}}}}\n"


def validated(folder: Path, text: str, *args: str, cluster: str = CLUSTER) -> Done:
    """What `validate` says without a server."""
    declared = written(folder, cluster, "cluster.yaml")
    nowhere = ["--server", "http://127.0.0.1:1", "workflow", "validate"]
    return runrig(*nowhere, written(folder, text), "--cluster", declared, *args)


def test_validate_with_a_cluster_file_needs_no_server(tmp_path: Path) -> None:
    file = f"{tmp_path}/wf.yaml"
    done = validated(tmp_path, gpus(2), "--pool", "a")
    assert (done.code, done.out, done.err) == (0, f"{file} is valid in pool a\n", "")
    refused_here = validated(tmp_path, gpus(3), "--pool", "a")
    assert (refused_here.code, refused_here.err) == (
        1,
        "Error: train needs 3 GPUs, but pool a has a quota of 2 GPUs. "
        "Request less or submit with priority LOW to borrow (Gate, rule P3)\n",
    )
    assert validated(tmp_path, gpus(8), "-p", "a", "--priority", "low").code == 0
    assert validated(tmp_path, gpus(3), "-p", "b", "--priority", "LOW").code == 0
    assert validated(tmp_path, gpus(4), "-p", "b", "--priority", "LOW").code == 1
    assert validated(tmp_path, gpus(9), "-p", "a", "--priority", "LOW", "-t", "json").json["details"]["limit"] == 8


def test_validate_with_a_cluster_file_answers_as_a_server_does(tmp_path: Path) -> None:
    text = gpus(2, name="{{ who ~ x }}")
    settings = ["--set", "who=lead", "--set-string", "x=1", "--set-env", "K=V"]
    assert validated(tmp_path, text, "-p", "a", *settings, "-t", "json").json == VALID
    assert validated(tmp_path, text, "-p", "a", "--set-env", "1=V").code == 2
    assert validated(tmp_path, gpus(2), "-p", "c").err == "Error: unknown pool 'c' (pools: a, b)\n"


def test_validate_includes_local_files(tmp_path: Path) -> None:
    text = gpus(1).replace("resource: big", "resource: big, files: [{path: /x, localpath: x.sh}]")
    assert validated(tmp_path, text, "-p", "a").code == 2
    written(tmp_path, "echo {{ no template }}", "x.sh")
    assert validated(tmp_path, text, "-p", "a").code == 0


def test_validate_names_the_invalid_file(tmp_path: Path) -> None:
    bad = validated(tmp_path, gpus(-1), "-p", "a")
    assert (bad.code, bad.err.startswith(f"{tmp_path}/wf.yaml:1:")) == (2, True)
    broken = validated(tmp_path, gpus(1), "-p", "a", cluster="pools: 5\n")
    assert (broken.code, broken.err.startswith(f"{tmp_path}/cluster.yaml:1:8: ")) == (2, True)
    for cluster, says in (
        (CLUSTER, "you can submit to 2 pools (a, b). Choose one with --pool"),
        ("pools: []\n", f"{tmp_path}/cluster.yaml has no pools. Add pools: [{{name: NAME, quota: GPUS}}]"),
    ):
        several = validated(tmp_path, gpus(1), cluster=cluster)
        assert (several.code, several.err) == (2, f"Error: {says}\n")
    one = validated(tmp_path, gpus(1), cluster=CLUSTER.replace(", {name: b", "]\n#"))
    assert one.out.endswith("is valid in pool a\n")


def test_nodes_are_checked_only_where_the_cluster_file_lists_them(tmp_path: Path) -> None:
    large = "pools: [{name: a, quota: 16}]\n"
    small = "nodes: [{name: 'n{0..1}', resources: {gpu: 8}}]\n"
    assert "does not fit even on empty nodes: " in validated(tmp_path, gpus(9), cluster=small + large).err
    unknown = validated(tmp_path, gpus(9), cluster="backend: {type: local}\n" + large)
    warnings = (
        "image is ignored: the local backend runs commands directly on this machine",
        "the cluster file lists no nodes, so only quotas were checked",
    )
    assert (unknown.code, unknown.err) == (0, "".join(f"Warning: {each}\n" for each in warnings))
    assert validated(tmp_path, gpus(17), cluster=large).code == 1
    assert validated(tmp_path, gpus(1000), "--priority", "LOW", cluster=large).code == 0


def test_validate_asks_the_server_with_the_same_settings() -> None:
    with serving({CHECK: CHECKED}) as server:
        options = ["--priority", "low", "--set", "a=1", "--set-env", "K=V", "--label", "team=x"]
        assert at(server, "workflow", "validate", "-", "-p", "p", *options, stdin=FILE).code == 0
    assert server.asked == [
        (
            CHECK,
            [],
            {
                "pool": "p",
                "priority": "LOW",
                "environment": {"K": "V"},
                "labels": {"team": "x"},
                "file": FILE,
                "variables": ["a=1"],
                "string_variables": [],
            },
        )
    ]


def test_restart_uses_the_pool_of_the_workflow() -> None:
    route, repeated = "POST /api/v1/workflows/train-1/repeat", SUBMITTED | {"id": "train-2"}
    with serving({"GET /api/v1/workflows/train-1": workflow("FAILED"), route: repeated}) as server:
        done = at(server, "workflow", "restart", "train-1")
    assert done.out == "train-2 repeats train-1. Follow it: runrig attach train-2\n"
    assert server.asked[-1] == (route, [], {"pool": "vision", "failed_only": True})


def test_cancel_reports_each_and_fails_if_one_failed() -> None:
    answers = {
        "POST /api/v1/workflows/a-1/cancel": {"id": "a-1"},
        "POST /api/v1/workflows/b-1/cancel": (409, refused("b-1 is COMPLETED", "CONFLICT")),
        "POST /api/v1/workflows/c-1/cancel": {"id": "c-1"},
    }
    with serving(answers) as server:
        text = at(server, "workflow", "cancel", "a-1", "b-1", "c-1", "-m", "no", "--force")
        json = at(server, "workflow", "cancel", "a-1", "b-1", "-t", "json")
        alone = at(server, "workflow", "cancel", "d-1")
    assert (text.code, text.out, text.err) == (
        1,
        "a-1 is cancelled\nc-1 is cancelled\n",
        "Error: b-1 is COMPLETED\n",
    )
    failed = {"name": "b-1", "message": "b-1 is COMPLETED", "code": "CONFLICT"}
    assert (json.code, json.json) == (1, {"cancelled": ["a-1"], "failed": [failed]})
    assert alone.code == 2
    assert [body for _, _, body in server.asked[:4]] == [{"message": "no"}] * 3 + [{"message": ""}]


def test_cancel_by_filter_takes_waiting_workflows_first_and_each_once() -> None:
    listed = "GET /api/v1/workflows"
    cancels = {f"POST /api/v1/workflows/{id}/cancel": {"id": id} for id in ("a-1", "b-1", "c-1")}
    both = [(200, page(entry("b-1"), entry("a-1"))), (200, page(entry("b-1"), entry("c-1")))]
    with serving({listed: both, **cancels}) as server:
        done = at(server, "workflow", "cancel", "--pool", "p", "-m", "no")
    assert (done.code, done.out) == (0, "b-1 is cancelled\na-1 is cancelled\nc-1 is cancelled\n")
    assert [dict(query).get("status") for _, query, _ in server.asked[:2]] == ["PENDING", "RUNNING"]
    assert {"pool", "mine"} <= {name for name, _ in server.asked[0][1]}


def test_cancel_reports_that_no_workflow_matches() -> None:
    with serving({"GET /api/v1/workflows": page()}) as server:
        assert at(server, "workflow", "cancel", "--status", "running").out == (
            "No workflows match. Use --all to include those of all users.\n"
        )
        assert at(server, "workflow", "cancel", "--user", "bob").out == "No workflows match.\n"
        json = at(server, "workflow", "cancel", "--all", "-t", "json")
    assert (json.code, json.json) == (0, {"cancelled": [], "failed": []})


@pytest.mark.parametrize("args", [(), ("a-1", "--pool", "p")])
def test_cancel_takes_either_ids_or_a_filter(args: tuple[str, ...]) -> None:
    done = answered({}, "workflow", "cancel", *args)
    assert (done.code, done.out) == (2, "")
    assert "--pool, --user, --status" in done.err


# ---------------------------------------------------------------- questions


def test_workflow_list_is_a_table() -> None:
    """The GPUs of a workflow that runs with fewer pods are those that run."""
    entries = [
        entry("train-3", gpus=12, gpus_asked=17, nodes=3),
        entry(
            "train-2",
            status="PENDING",
            priority="LOW",
            gpus=4,
            gpus_asked=4,
            times=TIMES | {"waited_s": 62.0, "running_s": 0.0},
            node=None,
            nodes=0,
            why=example_of(WorkflowHeadline),
        ),
        entry("train-1", submitted_by="bob", gpus=None, gpus_asked=None),
    ]
    done = answered({"GET /api/v1/workflows": page(*entries)}, "workflow", "list", "-c", "2")
    assert lines(done.out) == [
        "User   Workflow ID  Submitted            Status   Priority  Pool    GPUs      Waited  Ran  Node or reason",
        "-----  -----------  -------------------  -------  --------  ------  --------  ------  ---  -------------------------------------",
        "alice  train-3      2026-01-31 12:00:00  RUNNING  NORMAL    vision  12 of 17  0.1s    12s  n00 and 2 more",
        "alice  train-2      2026-01-31 12:00:00  PENDING  LOW       vision  4         1m02s   -    quota: 2 GPUs left in vision, needs 4",
        "More results: use --count 4 or --offset 2.",
    ]
    done = answered({"GET /api/v1/workflows": page(*entries)}, "workflow", "list", "--offset", "2")
    assert lines(done.out)[2:] == [
        "bob   train-1      2026-01-31 12:00:00  RUNNING  NORMAL    vision  -     0.1s    12s  n00"
    ]


def test_workflow_list_requests_one_page_after_another() -> None:
    pages = [
        (200, page(*[entry(f"w-{at}") for at in range(1000)], following="next")),
        (200, page(entry("w-1000"))),
    ]
    with serving({"GET /api/v1/workflows": pages}) as server:
        done = at(server, "workflow", "list", "-c", "1500", "-t", "json")
    assert (len(done.json["workflows"]), done.json["more_entries"]) == (1001, False)
    assert [query for _, query, _ in server.asked] == [
        [("mine", "True"), ("why", "True"), ("limit", "1000")],
        [("mine", "True"), ("why", "True"), ("limit", "501"), ("cursor", "next")],
    ]


def test_workflow_list_sends_its_filters() -> None:
    args = ["--status", "running", "-s", "FAILED", "--user", "bob", "-p", "a", "-n", "tr"]
    args += ["--submitted-after", "2026-01-31T13:00:00+01:00"]
    with serving({"GET /api/v1/workflows": page()}) as server:
        assert at(server, "workflow", "list", *args).out == "no workflows: --all shows those of all users\n"
        assert at(server, "workflow", "list", *args, "--all").out == "no workflows\n"
    filters = [
        ("status", "RUNNING"),
        ("status", "FAILED"),
        ("name", "tr"),
        ("pool", "a"),
        ("submitted_after", "2026-01-31T12:00:00"),
        ("why", "True"),
        ("limit", "21"),
    ]
    assert [sorted(query) for _, query, _ in server.asked] == [sorted([("user", "bob"), *filters]), sorted(filters)]


def test_query_shows_every_attempt() -> None:
    ended = {"end_time": "2026-01-31T12:01:05.310000Z"}
    tasks = (
        task(status="RESCHEDULED", exit_code=3006, message="preempted by x-1", **ended),
        task(attempt=1, status="SCHEDULING", node=None, gpus=[], start_time=None),
    )
    done = answered({"GET /api/v1/workflows/train-1": workflow("RUNNING", *tasks)}, "workflow", "query", "train-1")
    assert lines(re.sub(r":[0-9]+/", ":8700/", done.out)) == [
        "Workflow ID  train-1",
        "Status       RUNNING",
        "Pool         vision",
        "Priority     NORMAL",
        "User         alice",
        "Submitted    2026-01-31 12:00:00",
        "Started      2026-01-31 12:00:00",
        "Ended        -",
        "Times        waited 0.1s, ran 12s; 12s in all",
        "Overview     http://127.0.0.1:8700/workflow/train-1",
        "",
        "Task  Attempt  Status       Exit Code  Node  GPUs  Started              Duration  Message",
        "----  -------  -----------  ---------  ----  ----  -------------------  --------  ----------------",
        "main  0        RESCHEDULED  3006       n00   1     2026-01-31 12:00:00  1m05s     preempted by x-1",
        "main  1        SCHEDULING   -          -     -     -                    -",
    ]


def test_query_shows_requested_minimum_and_running_pods() -> None:
    """Law A1."""
    runs, waits = workflow("RUNNING"), workflow("PENDING")
    runs["groups"][0]["pods"] = [{"task": "train", "asked": 4, "least": 2, "got": 3}]
    waits["groups"][0]["pods"] = [{"task": "train", "asked": 4, "least": 2, "got": None}]
    for answer, says in ((runs, "train: 3 of 4 (at least 2)"), (waits, "train: 4 (at least 2)")):
        done = answered({"GET /api/v1/workflows/train-1": answer}, "workflow", "query", "train-1")
        assert [line for line in lines(done.out) if line.startswith("Pods")] == [f"Pods         {says}"]


def test_events_have_local_times() -> None:
    event = example_of(WorkflowEvent)
    noted = event | {"revision": None, "seq": None, "actor": "kubelet", "kind": "Pulled", "law": "", "text": "pulled"}
    naive = {"time": "2026-01-31T12:00:00.310000"}
    with serving({"GET /api/v1/workflows/w/events": page(event, noted)}) as server:
        found = at(server, "workflow", "events", "w", "-t", "json").json
        assert at(server, "workflow", "events", "w").out == (
            f"2026-01-31 12:00:00  {event['text']}\n2026-01-31 12:00:00  pulled\n"
        )
    assert found == [event | naive, noted | naive | {"law": None}]


def test_the_file_of_a_workflow_is_text_or_json() -> None:
    with serving({"GET /api/v1/workflows/w/spec": FILE}) as server:
        assert at(server, "workflow", "spec", "w", "--template").out == FILE
        assert at(server, "workflow", "spec", "w", "-t", "json").json == {"workflow": "w", "spec": FILE}
    assert server.asked[0][1] == [("template", "True")]


CHANGES = {
    "revision": 7,
    "at_rest": True,
    "would_start": [
        example_of(WouldStart),
        example_of(WouldStart)
        | {"who": "wait", "changes": ["until tune-812 has finished"], "stops": ["low-1"], "instead_of": []},
    ],
    "tried": [example_of(TriedDial) | {"dial": "priority", "values": 2, "refuted": 1, "run": 1}],
    "starts": [example_of(ForeseenStart)],
}
ASK_WHY, ASK_CHANGES = "GET /api/v1/workflows/train-3/why", "GET /api/v1/workflows/train-3/changes"


def test_why_is_shown_even_if_what_would_start_it_is_unknown() -> None:
    """In JSON as in text."""
    busy = 503, {"detail": "4 searches are under way", "code": "UNAVAILABLE", "details": {"retry_after_s": 2}}
    answers = {ASK_WHY: WHY, ASK_CHANGES: busy}
    told = "cannot show what would start it: 4 searches are under way\n"
    done = answered(answers, "workflow", "why", "train-3")
    assert (done.code, lines(done.out)[0], done.err) == (0, "train-3  PENDING", told)
    assert "WOULD START" not in done.out
    done = answered(answers, "why", "train-3", "-t", "json")
    assert (done.code, done.json["sentence"], done.json["changes"], done.err) == (0, WHY["sentence"], None, told)


@pytest.mark.parametrize("as_json", [(), ("-t", "json")])
def test_why_sends_each_request_once(as_json: tuple[str, ...]) -> None:
    with serving({ASK_WHY: WHY, ASK_CHANGES: CHANGES}) as server:
        done = at(server, "why", "train-3", "-v", "--depth", "2", *as_json)
    assert not as_json or done.json["changes"] == CHANGES
    assert [(asked, query) for asked, query, _ in server.asked] == [
        (ASK_WHY, []),
        (ASK_CHANGES, [("by", "all"), ("depth", "2")]),
    ]


def test_no_suggestions_are_searched_for_workflows_outside_the_queue() -> None:
    runs = WHY | {"groups": [group | {"position": None} for group in WHY["groups"]]}
    with serving({ASK_WHY: runs}) as server:
        assert at(server, "why", "train-3", "-t", "json").json["changes"] is None
    assert [asked for asked, _, _ in server.asked] == [ASK_WHY]


def test_why_prints_the_summary_then_the_blockers_then_the_past() -> None:
    with serving({ASK_WHY: WHY, ASK_CHANGES: CHANGES}) as server:
        done = at(server, "workflow", "why", "train-3", "-v")
    assert lines(done.out) == [
        "train-3  PENDING",
        "train-3 is waiting: needs 4 GPUs, but pool vision has only 2 GPUs left of its",
        "quota; in use by train-1. Position 2 in pool vision.",
        "",
        "SCHEDULING  position 2 in its pool, 4 ahead in all pools",
        "  order      ok: 12 gangs submitted later started first; STRICT_FIFO would",
        "             prevent that",
        "  quota      needs 4 GPUs, but pool vision has only 2 GPUs left of its quota; in",
        "             use by train-1 (Guarantee, rule P2)",
        "  nodes      ok",
        "  2026-01-31 12:00:00  was preempted by train-1, whose pool reclaimed borrowed",
        "    quota (Reclaim, rule R2)",
        "",
        "WOULD START IF",
        "  you    request 7 pods for main (now 8); eval-5 waits instead",
        "  wait   until tune-812 has finished (stops low-1)",
        "         nothing changes until 2026-01-31 17:40:00 UTC, when sft-75 reaches its",
        "         time limit",
        "  not    priority: no value would start it",
        "         priority: 2 values, 1 ruled out, 1 run: WAITS",
        "",
        f"Overview  {server.url}/workflow/train-3",
    ]


def test_why_of_a_pool_is_one_screen_by_blocker() -> None:
    answer = example_of(PoolWhy)
    with serving({"GET /api/v1/pools/vision/why": answer}) as server:
        assert at(server, "why", "--pool", "vision", "-t", "json").json == answer
        assert lines(at(server, "why", "--pool", "vision").out) == [
            "vision  14 gangs are waiting (need 40 GPUs)",
            "",
            "   14  needs 4 GPUs, but pool vision has only 2 GPUs left of its quota; in use",
            "       by train-1 (Guarantee, rule P2)",
            "       train-3 and 13 more",
            "",
            f"Overview  {server.url}/pool/vision",
        ]


@pytest.mark.parametrize(
    ("gangs", "first"),
    [(0, "vision  2 on hold (need 7 GPUs)"), (1, "vision  1 gang is waiting (needs 40 GPUs); 2 on hold (need 7 GPUs)")],
)
def test_why_of_a_pool_counts_work_on_hold_separately(gangs: int, first: str) -> None:
    example = example_of(PoolWhy)
    (blocker,) = example["held"]
    on_hold = blocker | {"gangs": 2, "gpus": 7, "reason": blocker["reason"] | {"code": "Held", "law": "W3"}}
    answer = example | {"gangs": gangs, "held": [on_hold, blocker] if gangs else [on_hold]}
    with serving({"GET /api/v1/pools/vision/why": answer}) as server:
        assert lines(at(server, "why", "--pool", "vision").out)[0] == first


def test_why_of_several_is_a_list_and_ids_exclude_a_pool() -> None:
    whys = {f"GET /api/v1/workflows/{id}/why": WHY | {"id": id} for id in ("a", "b")}
    with serving(whys | {f"GET /api/v1/workflows/{id}/changes": CHANGES for id in ("a", "b")}) as server:
        assert [each["workflow"] for each in at(server, "why", "a", "b", "-t", "json").json] == ["a", "b"]
    done = runrig("why", "a", "--pool", "vision")
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        "Error: IDs and --pool exclude each other. Use one or the other.",
    )


# ---------------------------------------------------------------- logs, wait, watch


def record(text: str, task: str = "main", **fields: Any) -> dict[str, Any]:
    return {**example_of(LogRecord), "text": text, "task": task, **fields}


def recorded(*records: dict[str, Any]) -> tuple[int, str]:
    return 200, "".join(json.dumps(each) + "\n" for each in records)


def test_logs_are_shown_as_written_but_without_control_characters() -> None:
    records = [record("\x1b[32mepoch 1\x1b[0m\t0.5"), record("no end", stream="stderr")]
    logs = [recorded(*records), recorded(*records), recorded(record("oops"))]
    with serving({"GET /api/v1/workflows/w/logs": logs, "GET /api/v1/workflows/w": workflow("COMPLETED")}) as server:
        assert at(server, "workflow", "logs", "w").out == "epoch 1\t0.5\nno end\n"
        assert at(server, "workflow", "logs", "w", "-t", "json").json == {
            "workflow": "w",
            "lines": [each["text"] for each in records],
            "records": records,
        }
        told = at(server, "workflow", "logs", "w", "--error", "--task", "a", "--attempt", "1", "-n", "5", "-f")
        assert told.out == "oops\n"
    plain = [("stream", "both"), ("format", "records")]
    query = [
        ("task", "a"),
        ("attempt", "0"),
        ("stream", "stderr"),
        ("last_lines", "5"),
        ("follow", "True"),
        ("format", "records"),
    ]
    # The number of attempts comes before the text; whether it may still be read comes last.
    asked: tuple[str, list[Any]] = ("GET /api/v1/workflows/w", [])
    assert [each[:2] for each in server.asked] == [
        asked,
        ("GET /api/v1/workflows/w/logs", plain),
        ("GET /api/v1/workflows/w/logs", plain),
        asked,
        ("GET /api/v1/workflows/w/logs", query),
        asked,
    ]


def test_lines_of_several_tasks_begin_with_their_task_and_later_attempts_with_a_rule() -> None:
    tasks = [task("main", message="preempted by x-1"), task("main", attempt=1), task("eval-12")]
    records = [record("one"), record("two", "eval-12"), record("three", attempt=1), record("four", "eval-12")]
    logs = [recorded(*records)] * 3
    answers = {"GET /api/v1/workflows/w/logs": logs, "GET /api/v1/workflows/w": workflow("RUNNING", *tasks)}
    with serving(answers) as server:
        rule = "── main: attempt 1 ended: preempted by x-1; attempt 2:"
        found = at(server, "workflow", "logs", "w", "--attempt", "all")
        assert lines(found.out) == ["main    │ one", "eval-12 │ two", rule, "main    │ three", "eval-12 │ four"]
        assert lines(at(server, "workflow", "logs", "w", "--no-prefix").out) == ["one", "two", rule, "three", "four"]
        timed = lines(at(server, "workflow", "logs", "w", "--times", "--task", "main", "--attempt", "all").out)
        assert re.fullmatch(r"\d\d:\d\d:\d\d  one", timed[0])


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (("--grep", "loss"), ["a │ loss 9", "a │ loss 1", "b │ loss 2"]),
        (("--grep", "^loss [12]$", "-C", "1"), ["a │ saved", "a │ loss 1", "a │ end", "b │ loss 2"]),
        (("--grep", "9|end", "-C", "1"), ["a │ start", "a │ loss 9", "a │ warm", "--", "a │ loss 1", "a │ end"]),
        (("--grep", "9|saved", "-C", "1"), ["a │ start", "a │ loss 9", "a │ warm", "a │ saved", "a │ loss 1"]),
        (
            ("--grep", "warm|end", "-C", "9"),
            ["a │ start", "a │ loss 9", "a │ warm", "a │ saved", "a │ loss 1", "a │ end"],
        ),
        (("--grep", "lost"), []),
    ],
)
def test_matching_lines_are_shown_with_lines_of_the_same_task_around_them(
    args: tuple[str, ...], found: list[str]
) -> None:
    texts = ["start", "loss 9", "warm", "saved", "loss 1", "end"]
    records = [*(record(text, "a") for text in texts), record("loss 2", "b")]
    told = workflow("RUNNING", task("a"), task("b"))
    with serving({"GET /api/v1/workflows/w/logs": recorded(*records), "GET /api/v1/workflows/w": told}) as server:
        done = at(server, "logs", "w", *args)
        assert (done.code, [line for line in lines(done.out) if line]) == (0, found)
        texts = [line.partition("│ ")[2] for line in found if line != "--"]
        assert at(server, "logs", "w", "-t", "json", *args).json["lines"] == texts


CAUSE = {
    "task": "main",
    "attempt": 1,
    "exit_code": 1,
    "ending": "exit code 1",
    "sentence": "KeyError: 'lr'",
    "lines": ["step 7", "Traceback (most recent call last):", "KeyError: \x1b[31m'lr'"],
    "first": 1,
    "last": 2,
}


def test_cause_is_first_in_logs_and_last_in_why_and_query() -> None:
    failed = workflow("FAILED", message="exit code 1", cause=CAUSE)
    answers = {
        "GET /api/v1/workflows/train-1/logs": recorded(record("step 7")),
        "GET /api/v1/workflows/train-1": failed,
        "GET /api/v1/workflows/train-1/why": WHY | {"groups": [], "cause": CAUSE},
    }
    last = ["", "main, attempt 2 wrote last:", "  step 7", "  Traceback (most recent call last):", "  KeyError: 'lr'"]
    with serving(answers) as server:
        logs = at(server, "workflow", "logs", "train-1")
        assert (logs.out, lines(logs.err)[-1]) == ("step 7\n", "train-1 FAILED: KeyError: 'lr' (main, exit code 1)")
        assert lines(at(server, "workflow", "query", "train-1").out)[-5:] == last
        why = lines(at(server, "workflow", "why", "train-1").out)
        assert why[why.index("") : why.index("") + 5] == last


WAIT = [
    ("COMPLETED", [], 0, "train-1 is COMPLETED\n", ""),
    ("FAILED", [], 7, "", "train-1 is FAILED: main exited with 1\n"),
    ("FAILED", ["--for", "COMPLETED"], 1, "", "train-1 is FAILED: main exited with 1\n"),
    ("FAILED_EXEC_TIMEOUT", [], 124, "", "train-1 is FAILED_EXEC_TIMEOUT: main exited with 1\n"),
    ("FAILED_CANCELED", [], 125, "", "train-1 is FAILED_CANCELED: main exited with 1\n"),
    ("FAILED_CANCELED", ["--for", "FAILED"], 0, "train-1 is FAILED_CANCELED: main exited with 1\n", ""),
    ("RUNNING", ["--for", "running"], 0, "train-1 is RUNNING\n", ""),
    ("COMPLETED", ["--for", "RUNNING"], 1, "", "train-1 is COMPLETED\n"),
    ("RUNNING", ["--timeout", "0"], 75, "", "Error: train-1 is RUNNING after 0 s. To see why: runrig why train-1\n"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "args", "code", "out", "err"), WAIT)
def test_wait_exits_with_the_code_of_the_reached_status(
    status: str, args: list[str], code: int, out: str, err: str
) -> None:
    ends = ("2026-01-31T12:00:02Z", "2026-01-31T12:00:01Z", "2026-01-31T12:00:00Z")
    tasks = [task(f"t{at}", status=status, exit_code=code, end_time=ends[at]) for at, code in enumerate((9, 7, 3006))]
    answer = workflow(status, *tasks, message="main exited with 1" if status.startswith("FAILED") else "")
    done = answered({"GET /api/v1/workflows/train-1/wait": answer}, "workflow", "wait", "train-1", *args)
    assert (done.code, done.out, done.err) == (code, out, err)


def test_wait_repeats_its_request_until_the_status_is_reached() -> None:
    answers = {"GET /api/v1/workflows/train-1/wait": [(200, workflow("PENDING")), (200, workflow("COMPLETED"))]}
    with serving(answers) as server:
        done = at(server, "workflow", "wait", "train-1", "-t", "json")
    assert (done.code, done.json["status"]) == (0, "COMPLETED")
    assert [query for _, query, _ in server.asked] == [
        [("for", "COMPLETED"), ("timeout", "0.000")],
        [("for", "COMPLETED"), ("timeout", "5.000")],
    ]


def test_wait_for_running_succeeds_if_it_ran_in_the_meantime() -> None:
    answers = {"GET /api/v1/workflows/train-1/wait": [(200, workflow("PENDING")), (200, workflow("COMPLETED"))]}
    done = answered(answers, "workflow", "wait", "train-1", "--for", "RUNNING")
    assert (done.code, done.out) == (0, "train-1 is COMPLETED\n")


def test_timeout_that_is_not_a_number_is_wrong_usage() -> None:
    assert [runrig("workflow", "wait", "w", "--timeout", each).code for each in ("nan", "-1", "soon")] == [2, 2, 2]


def test_watch_prints_each_change_once_when_piped() -> None:
    waiting = workflow("PENDING", task(status="SCHEDULING", node=None, gpus=[]), group="SCHEDULING")
    ended = workflow("FAILED", task(status="FAILED", exit_code=7), group="FAILED", message="main exited with 7")
    answers = {
        "GET /api/v1/workflows/train-1": [(200, waiting), (200, waiting), (200, ended)],
        "GET /api/v1/workflows/train-1/why": WHY,
    }
    with no_pause():
        done = answered(answers, "workflow", "watch", "train-1")
    assert done.code == 1
    assert [line[10:] for line in lines(done.out)] == [
        WHY["sentence"],
        "  main SCHEDULING",
        "train-1 is PENDING",
        "  main FAILED on n00 with exit code 7",
        "train-1 is FAILED: main exited with 7",
    ]


@contextmanager
def no_pause() -> Iterator[None]:
    """Polls follow each other at once: the clock is not what these tests are about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: None)
        yield


def test_watch_with_json_prints_the_final_status_as_one_document() -> None:
    with no_pause():
        answers: dict[str, Any] = {
            "GET /api/v1/workflows/train-1": [(200, workflow("RUNNING")), (200, workflow("COMPLETED"))]
        }
        done = answered(answers, "workflow", "watch", "train-1", "--format-type", "json")
    assert (done.code, done.json["status"]) == (0, "COMPLETED")
