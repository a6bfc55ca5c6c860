"""The subject of a commit has 72 characters at most.

Reads all commits since the rule is checked, or the message in the file that is named, as Git's hook commit-msg does.
"""

import subprocess
import sys
from pathlib import Path

SINCE = "7e296f7"
"""v0.1.0, the last commit that is not checked."""
LIMIT = 72


def subjects(arguments: list[str]) -> list[str]:
    if arguments:
        return Path(arguments[0]).read_text(encoding="utf-8").splitlines()[:1]
    command = ["git", "log", "--format=%s", f"{SINCE}..HEAD"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        print(f"subjects are not checked: there is no history from {SINCE} on here", file=sys.stderr)
    return done.stdout.splitlines()


def main(arguments: list[str]) -> int:
    long = [subject for subject in subjects(arguments) if len(subject) > LIMIT]
    for subject in long:
        print(f"a subject has {LIMIT} characters at most, this one has {len(subject)}: {subject}", file=sys.stderr)
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
