"""`runrig plan`: what is asked, and the page in 80 columns."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.shown.plans import Plan
from runrig.wire.base import example_of
from tests.cli.canned_server import answered, serving
from tests.worlds.command_line import lines, runrig, written

GANG = {"gang": "parse-71/train", "pool": "nlp", "priority": "LOW", "gpus": 16}
ROW = {"state": "ACTIVE", "quota": 128, "used": 72, "total": 112, "available": 56, "waiting": 14}
EMPTY = {
    name: value if not isinstance(value, list | dict) else type(value)() for name, value in example_of(Plan).items()
}
FULL: dict[str, Any] = EMPTY | {
    "changes": [
        {
            "action": "update",
            "kind": "pool",
            "name": "vision",
            "before": {"quotas": {"default": {"gpu": {"nominal": 128}}}},
            "after": {"quotas": {"default": {"gpu": {"nominal": 96}}}},
        }
    ],
    "starts": [GANG | {"nodes": ["n1", "n2", "n3", "n4"]}],
    "preempted": [GANG | {"gang": "tune-9/t", "by": "big-2/train", "law": "RECLAIM", "again": True}],
    "loses": [GANG | {"gang": "eval-5/t", "cause": "FAILED_BACKEND_ERROR", "then": "queued"}],
    "exposed": [
        {
            "pool": "vision",
            "resource": "default/gpu",
            "held": 112,
            "nominal": 96,
            "gangs": [GANG | {"gang": "tune-812/t", "pool": "vision"}],
        }
    ],
    "never": [GANG | {"gang": "vit-big-2/t", "pool": "vision", "gpus": 128, "why": "needs 128 GPUs"}],
    "drains": [{"pool": "old", "workflows": 3, "gpus": 24, "until": None}],
    "pools": [{"pool": "vision", "before": ROW, "after": ROW | {"quota": 96, "available": 24}}],
    "others": {"preempted": {"gangs": 2, "gpus": 8}},
}


def test_a_plan_fits_into_80_columns(tmp_path: Path) -> None:
    file = written(tmp_path, "pools: []", "pools.yaml")
    done = answered({"POST /api/v1/plan": FULL}, "plan", "-f", file)
    assert (done.code, done.err) == (0, "")
    *page, last = lines(done.out)
    assert page == [
        "~ pool vision",
        "    quotas.default.gpu.nominal: 128 -> 96",
        "",
        "Pool    Quota      Guaranteed used  Held  Free of quota  Waiting  Never starts",
        "------  ---------  ---------------  ----  -------------  -------  ------------",
        "vision  128 -> 96  72               112   56 -> 24       14       1",
        "",
        "starts          parse-71/train (nlp, LOW, 16 GPUs) on n1, n2, n3 and 1 more",
        "preempted       tune-9/t (nlp, LOW, 16 GPUs) by big-2/train (Reclaim, rule R2);",
        "                restarts elsewhere",
        "                2 gangs of other pools (8 GPUs)",
        "stopped         eval-5/t (nlp, LOW, 16 GPUs): returns to the queue",
        "preemptible     tune-812/t (LOW, 16 GPUs): vision uses 112 GPUs, more than its",
        "                quota of 96 GPUs",
        "can never start vit-big-2/t (vision, LOW, 128 GPUs): needs 128 GPUs",
        "drains          old: 3 workflows, 24 GPUs; end unknown, because some have no",
        "                time limit",
    ]
    assert last == f"Nothing was changed. To apply: runrig apply -f {file} --if-revision 18342"


def test_plan_without_effects_reports_that() -> None:
    done = answered({"POST /api/v1/plan": EMPTY}, "plan", "--down", "r1")
    assert lines(done.out) == ["No workflow or pool is affected.", "Nothing was changed (revision 18342)."]


def test_incomplete_plan_shows_how_far_it_got() -> None:
    done = answered({"POST /api/v1/plan": EMPTY | {"rests": False, "cycles": 100}}, "plan", "--down", "r1")
    assert "Stopped after 100 cycles, before the cluster settled." in done.out


@pytest.mark.parametrize(
    ("args", "body", "last"),
    [
        (("--pool", "team", "--quota", "8"), {"pool": "team", "quota": 8}, "runrig pool update team --quota 8"),
        (
            ("--pool", "team--a", "--quota", "50%"),
            {"pool": "team--a", "quota": "50%"},
            "runrig pool subpool update team a --quota 50%",
        ),
        (("--drain", "n0", "--drain", "n1"), {"drain": ["n0", "n1"]}, "runrig node drain n0 n1"),
        (("--drain", "n0", "--force"), {"drain": ["n0"], "force": True}, "runrig node drain n0 --force"),
        (("--down", "z/r1"), {"down": "z/r1"}, None),
    ],
)
def test_plan_sends_the_edit_and_prints_its_command(
    args: tuple[str, ...], body: dict[str, Any], last: str | None
) -> None:
    with serving({"POST /api/v1/plan": EMPTY}) as server:
        done = runrig("plan", *args, env={"RUNRIG_SERVER": server.url, "RUNRIG_TOKEN": "t"})
    assert server.asked == [("POST /api/v1/plan", [], body)]
    assert lines(done.out)[-1] == (
        f"Nothing was changed. To apply: {last}" if last else "Nothing was changed (revision 18342)."
    )


def test_planned_submission_equals_the_sent_one(tmp_path: Path) -> None:
    file = written(tmp_path, "workflow: {name: x}")
    with serving({"POST /api/v1/plan": EMPTY}) as server:
        env = {"RUNRIG_SERVER": server.url, "RUNRIG_TOKEN": "t"}
        said = ("--priority", "LOW", "--set", "n=2", "--set-string", "v=1.0", "--set-env", "A=b c", "--label", "t=x")
        done = runrig("plan", "-s", file, "--pool", "team", *said, env=env)
        command = lines(done.out)[-1].removeprefix("Nothing was changed. To apply: runrig ")
        runrig(*shlex.split(command), env=env)
    (_, _, planned), (route, _, submitted) = server.asked
    assert planned["submission"] == submitted
    assert route == "POST /api/v1/workflows"
    assert (submitted["priority"], submitted["variables"]) == ("LOW", ["n=2"])


@pytest.mark.parametrize(
    "sentence", ["would start now on n3", "would wait: needs 4 GPUs, but pool vision has only 2 GPUs left of its quota"]
)
def test_a_planned_submission_ends_with_whether_it_would_start(tmp_path: Path, sentence: str) -> None:
    file = written(tmp_path, "workflow: {name: x}")
    verdict = {"verdict": "WAITS", "sentence": sentence, "groups": []}
    done = answered({"POST /api/v1/plan": EMPTY | {"verdict": verdict}}, "plan", "-s", file, "--pool", "team")
    assert lines(done.out)[-2:] == [
        f"{file} {sentence}.",
        f"Nothing was changed. To apply: runrig workflow submit {file} --pool team",
    ]


def test_the_answer_is_printed_as_json() -> None:
    assert answered({"POST /api/v1/plan": FULL}, "plan", "--drain", "n0", "-t", "json").json == FULL
