"""The subject of a commit is ``area: what is now true``, and has 72 characters at most.

Reads all commits since the rule is checked, or the message in the file that is named, as Git's hook commit-msg does.
"""

import re
import subprocess
import sys
from pathlib import Path

SINCE = "7e296f7"
"""v0.1.0, the last commit that is not checked."""
LIMIT = 72
AREA = re.compile(r"[a-z0-9][a-z0-9 ,./_-]*: \S")


def subjects(arguments: list[str]) -> list[str]:
    if arguments:
        return Path(arguments[0]).read_text(encoding="utf-8").splitlines()[:1]
    command = ["git", "log", "--format=%s", f"{SINCE}..HEAD"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        print(f"subjects are not checked: there is no history from {SINCE} on here", file=sys.stderr)
    return done.stdout.splitlines()


def main(arguments: list[str]) -> int:
    wrong = [subject for subject in subjects(arguments) if len(subject) > LIMIT or not AREA.match(subject)]
    for subject in wrong:
        print(
            f"write a subject as 'area: what is now true', with at most {LIMIT} characters: {subject}", file=sys.stderr
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
