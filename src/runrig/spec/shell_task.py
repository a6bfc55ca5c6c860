"""A task that waits for a visitor: the shell that `runrig shell` runs in it.

The visitor touches a file while it lives. When it ends, the task ends with its exit code. When it is cut off, the task
ends after `LONGEST_ALONE_S` without one.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from runrig.spec.one_task import OneTask

LABEL = "runrig-shell"
"""Marks such a workflow; its value is of no importance."""
LONGEST_ALONE_S = 300
_BEAT_S = 20

_WAITS = (
    'cd "$RUNRIG_SHELL_FOLDER" || exit 1',
    "alone=0",
    "while [ ! -e done ]; do",
    "  if [ -e here ]; then rm -f here; alone=0; fi",
    f'  if [ "$alone" -ge {2 * LONGEST_ALONE_S} ]; then echo "no shell for {LONGEST_ALONE_S} s"; exit 0; fi',
    "  alone=$((alone + 1))",
    "  sleep 0.5",
    "done",
    'exit "$(cat done)"',
)
_BEATS = f'(while :; do : > "$RUNRIG_SHELL_FOLDER/here"; sleep {_BEAT_S}; done)'
_BEFORE = (
    f"{_BEATS} < /dev/null > /dev/null 2>&1 & beat=$!",
    "trap 'kill $beat; exit 129' HUP TERM",
)
_AFTER = (
    "code=$?",
    "kill $beat",
    'echo $code > "$RUNRIG_SHELL_FOLDER/done.new"',
    'mv "$RUNRIG_SHELL_FOLDER/done.new" "$RUNRIG_SHELL_FOLDER/done"',
    "exit $code",
)
VISITOR = ("sh", "-c", 'eval "$RUNRIG_SHELL_VISIT"')
"""The program to run in the task."""


def waiting_for(command: Sequence[str], task: OneTask) -> OneTask:
    """Returns *task*, which waits until a visitor has run *command* in it."""
    visit = "\n".join((*_BEFORE, shlex.join(command), *_AFTER))
    variables = {"RUNRIG_SHELL_FOLDER": "{{output}}", "RUNRIG_SHELL_VISIT": visit}
    return replace(
        task,
        command=("sh", "-c", "\n".join(_WAITS)),
        labels={**task.labels, LABEL: "1"},
        environment={**task.environment, **variables},
    )
