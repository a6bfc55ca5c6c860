"""Which files of a folder are its code, and its state in git."""

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from runrig.domain.code import MOST_FILES
from runrig.domain.errors import InvalidInput
from runrig.spec.regular_file import regular_file

IGNORE = ".runrigignore"
_CACHES = frozenset({".git", ".venv", "__pycache__", "node_modules"})
_SECRETS = ("credential.key", "token")
"""Files that mark the data folder of a server, which `runrig up --data` can create in the folder of a project."""
_MOST_LOOKED_AT = 10 * MOST_FILES
_MOST_PATTERNS = 1_000


def listed(folder: Path) -> list[str]:
    """Returns the paths of files and links below *folder*, sorted, without those of a server's data folder.

    Raises InvalidInput for an invalid ``.runrigignore``.
    """
    ignored = _ignored(folder)
    tracked = _in_git(folder)
    found = _walk(folder) if tracked is None else tracked
    kept = {name for name in _at_most(found) if not ignored(name)}
    return sorted(_without_servers(kept))


def _without_servers(names: set[str]) -> Iterable[str]:
    """Leaves out folders that hold a server's secrets, its database and the output of tasks."""
    key, others = _SECRETS[0], _SECRETS[1:]
    homes = [name.removesuffix(key) for name in names if name == key or name.endswith(f"/{key}")]
    data = tuple(home for home in homes if all(f"{home}{other}" in names for other in others))
    return (name for name in names if not name.startswith(data)) if data else names


def git_labels(folder: Path) -> Mapping[str, str]:
    """Returns ``git.commit`` and ``git.dirty``: how many files below *folder* differ from it."""
    commit = _git(folder, "rev-parse", "--verify", "-q", "HEAD")
    if not commit:
        return {}
    changed = _git(folder, "status", "--porcelain", "--no-renames", "-z", "--", ".") or b""
    return {"git.commit": commit.decode("ascii", "replace").strip(), "git.dirty": str(changed.count(b"\0"))}


def _at_most(names: Iterable[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        if number == _MOST_LOOKED_AT:
            raise InvalidInput.one(
                f"the folder has more than {_MOST_LOOKED_AT:,} files, which is too much to send as code. Change into the "
                "folder of your project, or use --code none"
            )
        yield name


def _in_git(folder: Path) -> list[str] | None:
    """Returns what git tracks or would track, including submodules; None outside a work tree."""
    found = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if found is None:
        return None
    names: list[str] = []
    for raw in found.split(b"\0"):
        name = os.fsdecode(raw).rstrip("/")
        if not name:
            continue
        path = folder / name
        if path.is_dir() and not path.is_symlink():  # a submodule, or a repository inside this one
            inner = _in_git(path) if (path / ".git").exists() else None
            names += [f"{name}/{each}" for each in (_walk(path) if inner is None else inner)]
        else:
            names.append(name)
    return names


def _git(folder: Path, *words: str) -> bytes | None:
    """Returns the output of git; None if it fails or is not installed. Runs no program that the repository names."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _walk(folder: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        if isinstance(error, FileNotFoundError) and error.filename != str(folder):
            return  # It was deleted after its parent was read.
        raise InvalidInput.one(f"{error.filename} cannot be read: {error.strerror}. Add it to {IGNORE}")

    for at, folders, files in os.walk(folder, onerror=fail):
        if set(files).issuperset(_SECRETS):  # A running server changes its folder all the time.
            folders.clear()
            continue
        folders[:] = sorted(set(folders) - _CACHES)
        place = Path(at)
        links = [name for name in folders if (place / name).is_symlink()]
        for name in sorted([*files, *links]):
            if name not in _CACHES:  # in a work tree of git, .git is a file
                yield (place / name).relative_to(folder).as_posix()


def _ignored(folder: Path) -> Callable[[str], bool]:
    """Returns a function that checks whether ``.runrigignore`` names a path or one of its folders."""
    try:
        lines = regular_file(folder / IGNORE).read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        return lambda _: False
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.one(f"{IGNORE} cannot be read: {error}") from None
    patterns = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    for number, line in enumerate(lines, start=1):
        if line.strip().startswith("!") or "**" in line or len(patterns) > _MOST_PATTERNS:
            raise InvalidInput.one(
                f"{IGNORE}, line {number}: {line.strip()!r:.80} is not supported. Use names such as data/, *.pt or "
                "/runs/old, one per line"
            )
    return lambda name: any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    """As in a ``.gitignore``: with a slash before its end, a pattern begins at the folder; else it matches anywhere."""
    only_folders, words = pattern.endswith("/"), pattern.strip("/").split("/")
    parts = name.split("/")
    if only_folders:
        parts = parts[:-1]
    if not pattern.startswith("/") and len(words) == 1:
        return any(fnmatchcase(part, words[0]) for part in parts)
    return len(parts) >= len(words) and all(map(fnmatchcase, parts, words))
