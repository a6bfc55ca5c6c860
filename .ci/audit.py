"""Whether a vulnerability is known of anything in uv.lock: what runs, what tests it and what builds it.

PyPI is asked for its advisories.  Where it cannot be asked nothing is known, which is said and is no failure: whether a change may
land must not hang on somebody else's service.  That PyPI knows some packages and not others is a failure.
"""

import datetime
import json
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

_WHOLE = ("--all-extras", "--all-groups", "--no-emit-project")
EXPORT = ["export", "--quiet", "--frozen", *_WHOLE, "--no-header", "--no-annotate", "-o"]
ASK = ["--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off", "-r"]


class Ignored(NamedTuple):
    """An advisory that does not concern us, because of *reason*; looked at again when *until* is over."""

    id: str
    until: datetime.date
    reason: str


IGNORED: tuple[Ignored, ...] = ()


class Verdict(NamedTuple):
    code: int
    lines: tuple[str, ...]


def verdict(answer: str, said: str, today: datetime.date, ignored: tuple[Ignored, ...] = IGNORED) -> Verdict:
    """*answer*: the report of pip-audit as JSON, empty if it has none; *said*: its messages."""
    if not answer.strip():
        return Verdict(0, ("NOT AUDITED: PyPI cannot be asked for advisories", *said.strip().splitlines()[-1:]))
    packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        return Verdict(0, (f"NOT AUDITED: PyPI told nothing about any of the {len(packages)} packages of uv.lock",))
    passed = {each.id for each in ignored if each.until >= today}
    found = tuple(
        f"{package['name']} {package['version']} has {advisory['id']}, repaired in {', '.join(advisory['fix_versions']) or 'none'}: "
        "`uv lock --upgrade-package` takes the repair, or .ci/audit.py says until when and why it does not concern us"
        for package in packages
        for advisory in package.get("vulns", ())
        if passed.isdisjoint({advisory["id"], *advisory.get("aliases", ())})
    )
    unknown = tuple(f"PyPI told nothing about {name}: see why, before anybody installs it" for name in skipped)
    if found or unknown:
        return Verdict(1, (*found, *unknown))
    return Verdict(0, (f"no advisory about any of the {len(packages)} packages of uv.lock",))


def main(uv: str, pip_audit: str) -> int:
    with tempfile.NamedTemporaryFile(suffix=".txt") as requirements:
        subprocess.run([uv, *EXPORT, requirements.name], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([pip_audit, *ASK, requirements.name], capture_output=True, text=True)
    code, lines = verdict(done.stdout, done.stderr, datetime.datetime.now(datetime.UTC).date())
    print(*lines, sep="\n", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
