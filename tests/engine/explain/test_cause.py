"""The cause of a failure, from the last output of a program."""

import pytest

from runrig.engine.explain.cause import LONGEST, NOTHING, Cause, cause_of, in_words

HEAD = "Traceback (most recent call last):"


def traceback(error: str, file: str = "train.py", line: int = 7) -> list[str]:
    return [HEAD, f'  File "{file}", line {line}, in step', "    loss.backward()", "    ^^^^^^^^^^^^^^^", error]


def ranked(rank: int, lines: list[str]) -> list[str]:
    return [f"[rank{rank}]: {line}" for line in lines]


def mixed(*several: list[str]) -> list[str]:
    """Lines interleaved as if many processes wrote them."""
    longest = max(map(len, several))
    return [lines[at] for at in range(longest) for lines in several if at < len(lines)]


WORK = [f"step {number}  loss 0.{number}" for number in range(40)]
LAUNCHER = [
    *traceback(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "/env/lib/torch/distributed/launcher/api.py",
    ),
    "============",
    "train.py FAILED",
    "Root Cause (first observed failure):",
]
ELASTIC = [
    "W1127 10:56:36 6990 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 6997 closing signal SIGTERM",
    "E1127 10:56:36 6990 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) of binary: python3",
]
KILLED = [
    "  rank      : 0 (local_rank: 0)",
    "  error_file: <N/A>",
    "  traceback : Signal 9 (SIGKILL) received by PID 6996",
]
ACCELERATE = traceback(
    "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
    "/env/lib/accelerate/commands/launch.py",
)
NCCL = traceback("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 2.")
PIPE = traceback("BrokenPipeError: [Errno 32] Broken pipe")
ENDINGS = {
    "a plain traceback": ([*WORK, *traceback("KeyError: 'state_dict'")], "KeyError: 'state_dict'"),
    "a word without a message": ([*WORK, *traceback("KeyboardInterrupt")], "KeyboardInterrupt"),
    "torchrun's own comes last": ([*WORK, *traceback("ValueError: bad batch"), *LAUNCHER], "ValueError: bad batch"),
    "a process under torchrun aborted": (
        [*WORK, "terminate called without an active exception", *ELASTIC, *LAUNCHER, *KILLED],
        "terminate called without an active exception",
    ),
    "a process under torchrun was killed": (
        [*ELASTIC[:1], *WORK, *ELASTIC, *LAUNCHER, *KILLED],
        "Signal 9 (SIGKILL) received by PID 6996",
    ),
    "accelerate's own comes last": ([*WORK, *traceback("ValueError: bad batch"), *ACCELERATE], "ValueError: bad batch"),
    "a later rank failed first": (
        [*WORK, *mixed(ranked(0, NCCL), ranked(3, traceback("IndexError: list index out of range"))), *LAUNCHER],
        "IndexError: list index out of range",
    ),
    "the others only saw it die": (
        mixed(ranked(1, PIPE), ranked(2, ["waits", *traceback("RuntimeError: no such shard")]), ranked(0, NCCL)),
        "RuntimeError: no such shard",
    ),
    "all saw somebody else die": (ranked(0, NCCL), NCCL[-1]),
    "while another was handled": (
        [
            *WORK,
            *traceback("KeyError: 'lr'"),
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            *traceback("ConfigError: lr is missing"),
        ],
        "ConfigError: lr is missing",
    ),
    "a worker of a loader": (
        [
            *traceback("RuntimeError: Caught OSError in DataLoader worker process 0."),
            "Original Traceback (most recent call last):",
            '  File "data.py", line 3, in __getitem__',
            "    raise OSError(path)",
            "OSError: cannot read 00012.tar",
            "",
        ],
        "OSError: cannot read 00012.tar",
    ),
    "logged long ago, then killed": (
        [*traceback("TimeoutError: no answer"), *[f"step {number}" for number in range(250)], "Killed"],
        "Killed",
    ),
    "logged, and another one at the end": (
        [*traceback("TimeoutError: no answer"), *WORK, *traceback("ZeroDivisionError: division by zero")],
        "ZeroDivisionError: division by zero",
    ),
    "a shell": ([*WORK, "run.sh: line 3: trian: command not found"], "run.sh: line 3: trian: command not found"),
    "a full disk, and a farewell": (
        [*WORK, "cp: error writing 'ckpt': No space left on device", "bye"],
        "cp: error writing 'ckpt': No space left on device",
    ),
    "a crash": ([*WORK, "Segmentation fault (core dumped)"], "Segmentation fault (core dumped)"),
    "no word of it": (["one", "two", ""], "two"),
    "nothing": (["", "  "], NOTHING),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_cause_is_found(name: str) -> None:
    lines, sentence = ENDINGS[name]
    found = cause_of(lines)
    assert found.sentence == sentence
    if found.last >= 0:
        assert sentence in lines[found.last]
        assert 0 <= found.first <= found.last


def test_the_cause_has_the_lines_of_its_traceback_and_of_those_chained_to_it() -> None:
    lines, _ = ENDINGS["while another was handled"]
    assert cause_of(lines)[1:3] == (len(WORK), len(lines) - 1)
    lines, _ = ENDINGS["a plain traceback"]
    assert cause_of(lines)[1:3] == (len(WORK), len(lines) - 1)


def test_an_exception_that_ends_with_a_colon_is_completed_by_the_line_below_it() -> None:
    head = "RuntimeError: Error(s) in loading state_dict for Net:"
    below = ['\tMissing key(s) in state_dict: "bias". ', '\tUnexpected key(s) in state_dict: "b". ']
    whole = f'{head} Missing key(s) in state_dict: "bias".'
    plain = [*traceback(head), *below]
    assert cause_of([*WORK, *plain, *LAUNCHER]) == Cause(whole, len(WORK), len(WORK) + 5)
    assert cause_of(mixed(ranked(1, plain), ranked(0, NCCL))).sentence == whole
    assert cause_of([*traceback(head), "bye"]).sentence == head
    assert cause_of(traceback(head)).sentence == head


def test_a_program_that_only_reacted_to_another_failure_is_marked() -> None:
    assert cause_of(ranked(0, NCCL)).follows
    assert not cause_of(traceback("KeyError: 1")).follows


def test_sentences_have_a_maximum_length() -> None:
    assert cause_of(["Error: " + "x" * 1_000]) == Cause(("Error: " + "x" * 1_000)[:LONGEST], 0, 0)


@pytest.mark.parametrize(
    ("code", "message", "words"),
    [
        (1, "", "exit code 1"),
        (127, "", "exit code 127: no such command"),
        (137, "", "exit code 137: it was killed"),
        (137, "exit code 137 (OOMKilled)", "exit code 137: out of memory"),
        (139, "", "exit code 139: segmentation fault"),
    ],
)
def test_exit_codes_in_words(code: int, message: str, words: str) -> None:
    assert in_words(code, message) == words
