"""`runrig run` and `attach` up to the submission: which file is sent, what is refused, what is said first."""

from pathlib import Path
from typing import Any

import pytest

from runrig.domain.shown import WorkflowWhy
from tests.cli.canned_server import SUBMITTED, at, serving, task, workflow
from tests.worlds.command_line import Done, runrig

POOL = {"name": "vision", "default_image": None, "shell_idle_s": None}
ME = {"GET /api/v1/me": {"default_pool": "vision", "pools": ["vision", "nlp"]}, "GET /api/v1/pools/vision": POOL}
SENT = ME | {"POST /api/v1/workflows": SUBMITTED}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, and one without settings of the user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return tmp_path


def printed(*args: str) -> str:
    done = runrig("run", "--print", "--code", "none", *args)
    assert (done.code, done.err) == (0, "")
    return done.out


def refusal(*args: str) -> tuple[int, str]:
    done = runrig("run", "--code", "none", *args)
    assert done.out == ""
    return done.code, done.err.splitlines()[-1].removeprefix("Error: ")


def test_print_needs_no_server_and_shows_the_file() -> None:
    assert printed(
        "-g", "h100:8", "-N", "2", "--time", "4h", "--in", "rack", "-e", "A=b", "--", "torchrun", "t.py"
    ) == (
        "workflow:\n"
        "  name: t\n"
        '  timeout: {exec_timeout: "4h"}\n'
        "  resources:\n"
        "    default:\n"
        "      gpu: 8\n"
        "      platform: h100\n"
        "      topology:\n"
        "      - {key: rack, requirementType: required}\n"
        "  tasks:\n"
        "  - name: main\n"
        "    image: none\n"
        "    command: [torchrun, t.py]\n"
        "    count: 2\n"
        "    environment:\n"
        "      A: b\n"
    )


def test_the_file_that_is_printed_is_the_file_that_is_sent() -> None:
    words = ("-g", "0", "--priority", "low", "--", "bash", "-c", "echo {{index}} {{ x }}")
    running = workflow("RUNNING", task(status="RUNNING", node="n3"))
    with serving(SENT | {"GET /api/v1/workflows/train-1/wait": running}) as server:
        done = at(server, "run", "--code", "none", "-d", *words)
    (body,) = [body for route, _, body in server.asked if route == "POST /api/v1/workflows"]
    assert (done.code, done.out) == (0, "train-1\n")
    assert body == {"pool": "vision", "file": printed(*words)}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("", "name a command after --: runrig run [OPTIONS] -- COMMAND [ARG...]"),
        ("--", "name a command after --: runrig run [OPTIONS] -- COMMAND [ARG...]"),
        (
            "python t.py --lr 1",
            "--lr comes after a command without --. Write options first, then -- and the command: "
            "runrig run [OPTIONS] -- python t.py --lr 1",
        ),
        (
            "-g 2 python -u t.py",
            "-u comes after a command without --. Write options first, then -- and the command: "
            "runrig run [OPTIONS] -- python -u t.py",
        ),
        (
            "python t.py -- -x",
            "-- comes after a command without --. Write options first, then -- and the command: "
            "runrig run [OPTIONS] -- python t.py -x",
        ),
        (
            "--lrr 1 -- t",
            "No such option '--lrr'. If it belongs to the command, write -- before the command: "
            "runrig run [OPTIONS] -- COMMAND",
        ),
        (
            "-g two -- t",
            "Invalid value for '-g' / '--gpus': 'two' is not a number of GPUs. Use N, or TYPE:N, such as h100:8",
        ),
        (
            "-g :2 -- t",
            "Invalid value for '-g' / '--gpus': ':2' is not a number of GPUs. Use N, or TYPE:N, such as h100:8",
        ),
        (
            "-g -1 -- t",
            "Invalid value for '-g' / '--gpus': '-1' is not a number of GPUs. Use N, or TYPE:N, such as h100:8",
        ),
        ("-N 0 -- t", "Invalid value for '-N' / '--nodes': 0 is not in the range 1<=x<=10000."),
        ("-N 2 --min-nodes 3 -- t", "--min-nodes 3 is more than --nodes 2"),
        ("--time 0s -- t", "Invalid value for '--time': '0s' must be more than 0"),
        (
            "--memory lots -- t",
            "Invalid value for '--memory': 'lots' is not a size. Use a number and a unit, such as 512Mi, 64Gi or 1.5Ti.",
        ),
        (
            "--retry often -- t",
            "Invalid value for '--retry': 'often' is not N or N:CODES. Use for example 3, or 3:75,137.",
        ),
        ("--retry 101 -- t", "Invalid value for '--retry': 101 retries are not possible. Use 1 to 100."),
        (
            "--retry 3:0-9 -- t",
            "Invalid value for '--retry': '3:0-9' includes exit code 0, which means success. Use codes from 1.",
        ),
        (
            "--retry 3:x -- t",
            "Invalid value for '--retry': 'x' is not a list of exit codes. Use for example 1,3-5,137.",
        ),
        ("-e 1A=b -- t", "'1A' is not a variable name. Use letters, digits and '_'"),
        ("-e NOT_SET_HERE -- t", "-e NOT_SET_HERE: it is not set here. Use -e NOT_SET_HERE=VALUE"),
        (
            "-e HF_TOKEN=x -- t",
            "HF_TOKEN looks like a secret, and the workflow file would store its value. "
            "Store it once with `runrig credential set NAME`, then use --secret NAME",
        ),
        ("-d --attached -- t", "--detach and --attached exclude each other. Use one of them."),
        ("--dry-run --print -- t", "--dry-run and --print exclude each other. Use one of them."),
    ],
)
def test_mistakes_in_run_are_refused_with_a_way_out(args: str, says: str) -> None:
    assert refusal(*args.split()) == (2, says)


def test_run_accepts_json_only_if_it_does_not_follow_the_output() -> None:
    done = runrig("run", "-t", "json", "--", "t")
    says = "-t json needs --detach or --dry-run, because the output of the command goes to stdout"
    assert (done.code, done.json["message"], done.err) == (2, says, "")


def test_secret_from_the_own_environment_is_refused() -> None:
    done = runrig("run", "--code", "none", "-e", "HF_TOKEN", "--", "t", env={"HF_TOKEN": "x"})
    assert (done.code, "HF_TOKEN looks like a secret" in done.err) == (2, True)
    done = runrig("run", "--code", "none", "--print", "-e", "MODE", "--", "t", env={"MODE": "fast"})
    assert "      MODE: fast\n" in done.out


def test_argument_that_is_not_text_is_refused() -> None:
    code, says = refusal("--", "t", "\udcff")
    assert (code, says) == (2, "argument '\\udcff' is not UTF-8 text, which a workflow file needs")


def test_command_without_options_needs_no_dashes() -> None:
    assert "    command: [python, train.py]\n" in printed("python", "train.py")
    assert '    command: ["-x"]\n' in printed("--", "-x")


def test_a_credential_is_passed_as_variables_named_like_its_keys() -> None:
    keys = {"GET /api/v1/credentials/wandb": {"keys": ["WANDB_API_KEY", "HOST"]}}
    with serving(keys) as server:
        done = at(server, "run", "--code", "none", "--print", "--secret", "wandb", "--", "t")
    assert "    credentials:\n      wandb: {WANDB_API_KEY: WANDB_API_KEY, HOST: HOST}\n" in done.out


def test_a_key_that_cannot_be_a_variable_is_refused() -> None:
    with serving({"GET /api/v1/credentials/s3": {"keys": ["access key"]}}) as server:
        done = at(server, "run", "--code", "none", "--print", "--secret", "s3", "--", "t")
    assert (done.code, done.out) == (2, "")
    assert "credential s3 has the key 'access key', which cannot be the name of a variable" in done.err


# ---------------------------------------------------------------- defaults in files


def test_options_of_the_folder_apply_and_flags_override_them(folder: Path) -> None:
    (folder / "runrig.toml").write_text(
        '[run]\ngpus = "h100:4"\nnodes = 2\nmin-nodes = 1\nin = "rack"\nimage = "team:1"\nenv = {SEED = "1", MODE = "a"}\n'
    )
    assert printed("-N", "3", "-e", "MODE=b", "--", "torchrun", "t") == (
        "workflow:\n"
        "  name: t\n"
        "  resources:\n"
        "    default:\n"
        "      gpu: 4\n"
        "      platform: h100\n"
        "      topology:\n"
        "      - {key: rack, requirementType: required}\n"
        "  tasks:\n"
        "  - name: main\n"
        "    image: team:1\n"
        "    command: [torchrun, t]\n"
        "    count: 3\n"
        "    minCount: 1\n"
        "    environment:\n"
        '      SEED: "1"\n'
        "      MODE: b\n"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run = 1", "runrig.toml can have only a table [run] with options of `runrig run`"),
        ("[other]", "runrig.toml can have only a table [run] with options of `runrig run`"),
        ("[run", "runrig.toml is not valid TOML: "),
        ("[run]\ngpu = 1", "runrig.toml: unknown option 'gpu' in [run] (options: gpus, nodes, "),
        ("[run]\ngpus = [1]", "runrig.toml: gpus must be text or a number, not [1]"),
        ("[run]\nnodes = true", "runrig.toml: nodes must be text or a number, not True"),
        ("[run]\nnodes = 0", "Invalid value for '-N' / '--nodes': runrig.toml: 0 is not in the range 1<=x<=10000."),
        ("[run]\nenv = {SEED = 1}", 'runrig.toml: env must be a table of text, such as {SEED = "1"}, not '),
        ('[run]\nenv = {HF_TOKEN = "x"}', "HF_TOKEN looks like a secret"),
        (
            '[run]\nsecret = "w"',
            "runrig.toml: secret cannot be set here, because the file comes with a clone. Use --secret ",
        ),
        (
            '[run]\nserver = "x"',
            "runrig.toml: server cannot be set here, because the file comes with a clone. Use --server",
        ),
        ('[run]\ncode = ".."', "runrig.toml: code .. leads out of this folder. Use --code on the command line"),
        ('[run]\ncode = "/etc"', "runrig.toml: code /etc leads out of this folder. Use --code on the command line"),
        ('[run]\ncode = "link"', "runrig.toml: code link leads out of this folder. Use --code on the command line"),
    ],
)
def test_folder_file_with_unsafe_options_is_refused(folder: Path, text: str, says: str) -> None:
    (folder / "link").symlink_to("/etc")
    (folder / "runrig.toml").write_text(text)
    code, found = refusal("--", "t")
    assert (code, found[: len(says)]) == (2, says)


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("out", "/etc/passwd", "'out' is a link that leads out of the folder"),
        ("up", "../../elsewhere", "'up' is a link that leads out of the folder"),
        ("red\x1b[31m", "", "contains a control character"),
        ("two\nlines", "", "'two lines' contains a control character"),
        (b"\xff\xfe".decode("utf-8", "surrogateescape"), "", "is not valid UTF-8"),
    ],
)
def test_hostile_folder_is_refused_in_one_line_and_nothing_is_sent(
    folder: Path, name: str, target: str, says: str
) -> None:
    if target:
        (folder / name).symlink_to(target)
    else:
        (folder / name).touch()
    with serving(SENT) as server:
        done = at(server, "run", "--code", ".", "--", "true")
    assert (done.code, done.out, done.err.count("\n"), says in done.err) == (2, "", 1, True), done.err
    assert done.err.endswith(". Remove it, or add it to .runrigignore\n")
    assert done.err.removesuffix("\n").isprintable()
    assert [asked for asked, _, _ in server.asked if not asked.startswith("GET")] == []


def test_help_works_with_an_invalid_folder_file(folder: Path) -> None:
    (folder / "runrig.toml").write_text("[")
    assert runrig("run", "--help").code == 0


def test_image_in_the_user_configuration_is_the_default(folder: Path) -> None:
    settings = folder / "settings" / "runrig"
    settings.mkdir(parents=True)
    (settings / "run.yaml").write_text("run: {image: my/image:1}\n")
    assert "    image: my/image:1\n" in printed("--", "t")
    assert "    image: other\n" in printed("-i", "other", "--", "t")
    (settings / "run.yaml").write_text("run: {imag: x}\n")
    code, says = refusal("--", "t")
    assert (code, says.startswith(f"{settings}/run.yaml:1:7: ")) == (2, True)


# ---------------------------------------------------------------- after the submission

WAITS = workflow("PENDING", task(status="SCHEDULING", node=None), group="SCHEDULING", exec_timeout_s=28800.0)


def submitted(seen: dict[str, Any], *args: str) -> Done:
    from runrig.wire.base import example_of

    answers = SENT | {
        "GET /api/v1/workflows/train-1/wait": seen,
        "GET /api/v1/workflows/train-1/why": example_of(WorkflowWhy),
    }
    with serving(answers) as server:
        return at(server, "run", "--code", "none", "-d", *args)


def test_first_line_of_run_shows_where_it_starts() -> None:
    seen = workflow("RUNNING", task(status="RUNNING", node="n3"), exec_timeout_s=14400.0)
    done = submitted(seen, "-g", "8", "--time", "4h", "--", "torchrun", "train.py")
    assert (done.out, done.err) == (
        "train-1\n",
        "train-1    8 GPUs, NORMAL, pool vision, at most 4h: starts now on n3\n",
    )
    nodes = [task(f"main-{k}", status="RUNNING", node=f"n{k}") for k in range(5)]
    done = submitted(
        workflow("RUNNING", *nodes), "-g", "8", "-N", "5", "--priority", "LOW", "--", "torchrun", "train.py"
    )
    assert done.err == "train-1    40 GPUs (5 nodes of 8), LOW, pool vision: starts now on n0, n1, n2 and 2 more\n"


def test_waiting_run_shows_why_and_how_it_could_start_sooner() -> None:
    done = submitted(WAITS, "-g", "2", "--", "train")
    first, why, sooner = done.err.splitlines()
    assert first == "train-1    PENDING   2 GPUs, NORMAL, pool vision, at most 8h"
    assert why.startswith("           waits: needs ")
    assert sooner == "           sooner: runrig why train-1"


def test_program_that_is_not_a_launcher_gets_one_warning_on_several_nodes() -> None:
    seen = workflow("RUNNING", task(status="RUNNING", node="n3"))
    warning = "Warning: python starts once on each node. Use a launcher such as torchrun to start one process per GPU"
    assert submitted(seen, "-N", "2", "--", "python", "t.py").err.splitlines()[0] == warning
    assert "Warning" not in submitted(seen, "--", "python", "t.py").err
    assert "Warning" not in submitted(seen, "-N", "2", "--", "torchrun", "t.py").err


FULL = {"verdict": "WAITS", "sentence": "", "groups": [{"group": "g", "reasons": [{"code": "QuotaFull"}]}]}
FREE = {"verdict": "STARTS", "sentence": "", "groups": [{"group": "g", "reasons": []}]}


@pytest.mark.parametrize(
    ("args", "verdicts", "priority"),
    [
        ((), [FREE], "NORMAL"),
        ((), [FULL, FREE], "LOW"),
        ((), [FULL, FULL], "NORMAL"),
        ((), [None], "NORMAL"),
        (("--priority", "HIGH"), [], "HIGH"),
    ],
)
def test_for_a_shell_that_would_wait_for_quota_low_is_suggested(
    args: tuple[str, ...], verdicts: list[Any], priority: str
) -> None:
    over = workflow("COMPLETED", task(status="COMPLETED", node="n3"), group="COMPLETED", cause=None)
    answers = SENT | {
        "POST /api/v1/workflows:check": [(200, {"verdict": verdict}) for verdict in verdicts],
        "GET /api/v1/workflows/train-1/wait": over,
        "GET /api/v1/workflows/train-1": over,
    }
    with serving(answers) as server:
        done = at(server, "shell", "--code", "none", *args)
    (body,) = [body for route, _, body in server.asked if route == "POST /api/v1/workflows"]
    assert (done.code, body["priority"]) == (0, priority)
    assert f"1 GPU, {priority}, pool vision, at most 8h: starts now on n3" in done.err


def test_dry_run_of_run_shows_what_would_happen() -> None:
    verdict = {"verdict": "STARTS", "sentence": "would start now on n3", "groups": []}
    checked = {"id": "t-?", "file": "", "warnings": ["careful"], "verdict": verdict}
    with serving(ME | {"POST /api/v1/workflows:check": checked}) as server:
        done = at(server, "run", "--code", "none", "--dry-run", "-d", "-g", "0", "--", "t")
    assert (done.code, done.out, done.err) == (
        0,
        "t-?: no GPUs, NORMAL, pool vision; would start now on n3\n",
        "Warning: careful\n",
    )


def test_an_array_is_a_group_of_the_file_with_indices_or_values() -> None:
    head = "workflow:\n  name: e\n  resources:\n    default:\n      gpu: 1\n  groups:\n  - name: elements\n    array:\n"
    tail = "    tasks:\n    - name: main\n      image: none\n      command: "
    assert printed("--array", "0-9%3", "--fail-fast", "--", "e.py", "{{array_index}}", "{{lr}}") == (
        f'{head}      indices: "0-9"\n      most: 3\n      failFast: true\n'
        f'{tail}[e.py, "{{{{array_index}}}}", "\\x7b{{lr}}}}"]\n'
    )
    assert printed("--sweep", "lr=0.1,1", "--sweep", "o=a", "--most", "1", "--", "e.py", "--lr={{lr}}", "{{x}}") == (
        f'{head}      values:\n      - {{lr: "0.1", o: a}}\n      - {{lr: "1", o: a}}\n      most: 1\n'
        f'{tail}[e.py, "--lr={{{{array:lr}}}}", "\\x7b{{x}}}}"]\n'
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("--array 0-", "Invalid value for '--array': '0-' is not a list of indices. Use for example 0-9, 1,3,5-7 or 0-15:4."),
        ("--array 0-1000", "Invalid value for '--array': too many elements (1,001, maximum 1,000)"),
        ("--array 0-9%0", "Invalid value for '--array': %0 is not a number of elements from 1 to 1000. Use for example 0-9%3."),
        ("--array 0-9%3 --most 2", "--array 0-9%3 and --most 2 both set a limit. Use one of them."),
        ("--array 0-9 --sweep a=1", "--array and --sweep exclude each other. Use one of them."),
        ("--sweep a=1,1", "Invalid value for '--sweep': a has the value '1' twice. Omit one."),
        ("--sweep a=1 --sweep a=2", "--sweep: a is given twice. List its values together, as in a=A,B."),
        ("--fail-fast", "--fail-fast requires --array or --sweep"),
        ("--most 3", "--most requires --array or --sweep"),
    ],
)  # fmt: skip
def test_an_impossible_array_is_refused_before_any_request(args: str, says: str) -> None:
    assert refusal(*args.split(), "--", "e.py") == (2, says)
