"""A task that waits for a visitor: the shell that `runrig shell` runs in it.

The visitor touches a file while it lives. When it ends, the task ends with its exit code. When it is cut off, the task
ends after `LONGEST_ALONE_S` without one.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from runrig.domain.spans import format_duration
from runrig.spec.one_task import OneTask

LABEL = "runrig-shell"
"""Marks such a workflow; the value has no meaning."""
LONGEST_ALONE_S = 300
_BEAT_S = 20
_WARNING_S = 60
"""How long before the end of an idle shell its user is warned."""

_WAITS = (
    'cd "$RUNRIG_SHELL_FOLDER" || exit 1',
    "alone=0",
    "while [ ! -e done ]; do",
    "  if [ -e here ]; then rm -f here; alone=0; fi",
    f'  if [ "$alone" -ge {2 * LONGEST_ALONE_S} ]; then echo "no shell for {LONGEST_ALONE_S} s"; exit 0; fi',
    "  alone=$((alone + 1))",
    "  sleep 0.5",
    "done",
    "if [ -e idle ]; then cat idle; fi",
    'exit "$(cat done)"',
)
_WATCHES = (
    "since=$(date +%s)",
    'while : > "$RUNRIG_SHELL_FOLDER/here"; do',
    "  sleep {beat}",
    '  [ -n "$tty" ] && [ {idle} -gt 0 ] || continue',
    "  set -- $(sed 's/.*) //' /proc/$self/stat)",
    "  group=$3 front=$6",
    "  set -- $(sed 's/.*) //' /proc/$front/stat)",
    "  now=$(date +%s) typed=$(stat -c %X $tty)",
    # A program in the foreground is neither the shell nor a child of the one that started it.
    '  if [ "$front" != "$group" ] && [ "$2" != "$self" ]; then since=$now; fi',
    '  if [ "$typed" -gt "$since" ]; then since=$typed warned=; fi',
    "  left=$(({idle} - now + since))",
    '  if [ "$left" -le 0 ]; then',
    '    echo "no input for {span}" > "$RUNRIG_SHELL_FOLDER/idle"',
    "    kill -HUP -$front",
    '  elif [ "$left" -le {warning} ] && [ -z "$warned" ]; then',
    "    warned=1",
    "    printf '\\r\\nNo input for some time. This shell ends in %s s unless you press a key.\\r\\n' $left > $tty",
    "  fi",
    "done",
)
"""Shows that the visitor lives, and ends it after a time without input."""
_AFTER = (
    "code=$?",
    "finish",
    "exit $code",
)


def _before(idle_s: int) -> Sequence[str]:
    beat = min(_BEAT_S, max(1, idle_s // 6)) if idle_s else _BEAT_S
    numbers = {
        "{beat}": beat,
        "{idle}": idle_s,
        "{span}": format_duration(idle_s),
        "{warning}": min(_WARNING_S, idle_s // 2),
    }
    watches = "\n".join(_WATCHES)
    for name, number in numbers.items():
        watches = watches.replace(name, str(number))
    return (
        "self=$$",
        "tty=$(tty) || tty=",
        f"( trap '' HUP\n{watches} ) < /dev/null > /dev/null 2>&1 & beat=$!",
        "finish() {",
        "  kill $beat",
        '  if [ -e "$RUNRIG_SHELL_FOLDER/idle" ]; then code=0; fi',
        '  echo $code > "$RUNRIG_SHELL_FOLDER/done.new"',
        '  mv "$RUNRIG_SHELL_FOLDER/done.new" "$RUNRIG_SHELL_FOLDER/done"',
        "}",
        # The connection was lost, or the program without a shell of its own was ended.
        """trap 'if [ -e "$RUNRIG_SHELL_FOLDER/idle" ]; then finish; else kill $beat; fi; exit 129' HUP TERM""",
    )


VISITOR = ("sh", "-c", 'eval "$RUNRIG_SHELL_VISIT"')
"""The program to run in the task."""


def waiting_for(command: Sequence[str], task: OneTask, *, idle_s: float | None = None) -> OneTask:
    """Returns *task*, which waits until a visitor has run *command* in it.

    *idle_s*: time without input on a terminal after which *command* is ended, at least a second; None: no limit. A program that
    *command*, a shell, runs in the foreground counts as input.
    """
    visit = "\n".join((*_before(0 if idle_s is None else max(1, round(idle_s))), shlex.join(command), *_AFTER))
    variables = {"RUNRIG_SHELL_FOLDER": "{{output}}", "RUNRIG_SHELL_VISIT": visit}
    return replace(
        task,
        command=("sh", "-c", "\n".join(_WAITS)),
        labels={**task.labels, LABEL: "1"},
        environment={**task.environment, **variables},
    )
