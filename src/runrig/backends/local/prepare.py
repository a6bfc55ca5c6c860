"""Turns a launch into a folder that a supervisor can run: files, expanded tokens, environment.

work/      its working directory and HOME, with the code and the files of the task
output/    {{output}}
inputs/    {{input:NAME}} for a task with a count: inputs/NAME/POD links to the output of each pod;
           the output of a single pod is named directly
tmp/       TMPDIR
credentials/
           credentials as files; removed when the task ends
hosts      for launchers: the nodes of the task
secrets    credentials as variables; removed when the task starts
launch     for the supervisor; written last, so without it nothing was ever started
"""

import contextlib
import errno
import os
import pwd
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

from runrig.backends.launcher import hostfile_of, own_variables, port_of, variables
from runrig.backends.local import supervisor
from runrig.backends.local.attempt import Attempt
from runrig.backends.local.code import CodeFolders
from runrig.backends.local.credentials import hand_over
from runrig.backends.local.processes import MARKER
from runrig.domain.tokens import array_environment, contents_of, expand, name_in_array
from runrig.domain.workflows import FileSpec
from runrig.ports.backend import Launch, Opens

ADDRESS = "127.0.0.1"

_IN_A_PATH = r"\w/\-+~@%"
_INPUT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


def prepare(
    attempt: Attempt, tasks: Path, launch: Launch, visible: tuple[str, ...], opens: Opens, code: CodeFolders
) -> None:
    """Creates the folder of *attempt* anew. *visible*: index of a GPU → its name in CUDA_VISIBLE_DEVICES.

    Raises NotCopied, before it creates anything, while its code is being copied; ValueError with a message for an
    impossible launch; OSError if the machine fails.
    """
    copy = None if launch.code is None else code.copy_for(attempt.key, launch.user, launch.code)
    if attempt.folder.exists():  # A killed server left this; nothing was started in it.
        shutil.rmtree(attempt.folder)
    attempt.folder.mkdir(mode=0o700, parents=True)
    for name in ("output", "inputs", "tmp"):
        (attempt.folder / name).mkdir(mode=0o700)
    if copy is None:
        (attempt.folder / "work").mkdir(mode=0o700)
    else:
        os.rename(copy, attempt.folder / "work")
    values = _token_values(attempt, tasks, launch)
    for file in launch.files:
        _write_file(attempt.folder / "work", file, values)
    handed, secrets = hand_over(attempt.folder, launch, opens)
    relocate = _relocation(attempt.folder / "work", launch.files, handed)
    command = tuple(expand(relocate(word), values) for word in launch.command)
    if not command:
        raise ValueError(f"{launch.key} has no command")
    asked = {name: expand(relocate(value), values) for name, value in launch.environment.items()}
    launcher = _for_launchers(attempt, launch) | array_environment(launch.array)
    environment = _base_environment(attempt) | launcher | asked | _own_environment(attempt, launch, visible)
    if secrets:
        data = supervisor.encode_launch(0.0, (), secrets)
        supervisor.write(str(attempt.folder / supervisor.SECRETS), data, durable=False)
    data = supervisor.encode_launch(launch.grace_s, command, environment)
    supervisor.write(str(attempt.folder / "launch"), data, durable=False)


# ---------------------------------------------------------------- environment


def _base_environment(attempt: Attempt) -> dict[str, str]:
    """Returns the variables that programs expect, and nothing else of the server's environment."""
    user = _user()
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(attempt.folder / "work"),
        "TMPDIR": str(attempt.folder / "tmp"),
        "USER": user,
        "LOGNAME": user,
        "PYTHONUNBUFFERED": "1",  # Otherwise Python prints its output after a final traceback.
    }


def _for_launchers(attempt: Attempt, launch: Launch) -> dict[str, str]:
    """Writes the host file. Returns nothing for a task that shares its group, where its nodes are not the whole gang."""
    if len(launch.hosts) != launch.count:
        return {}
    file = attempt.folder / "hosts"
    gpus = len(launch.gpus)
    file.write_text(hostfile_of([ADDRESS] * launch.count, gpus), encoding="ascii")
    port = port_of(launch.gang, launch.gang_attempt)
    return variables(nodes=launch.count, rank=launch.index, gpus=gpus, address=ADDRESS, port=port, hostfile=str(file))


def _own_environment(attempt: Attempt, launch: Launch, visible: tuple[str, ...]) -> dict[str, str]:
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(_gpu_names(launch.gpus, visible)),
        **own_variables(launch.key, index=launch.index, count=launch.count, max_count=launch.max_count),
        "RUNRIG_HOSTS": ",".join(ADDRESS for _ in range(launch.count)),  # addresses of this task's pods, by index.
        MARKER: str(attempt.folder),
    }


def _gpu_names(gpus: tuple[int, ...], visible: tuple[str, ...]) -> Iterable[str]:
    for index in gpus:
        if index >= len(visible):
            raise ValueError(
                f"GPU {index} does not exist on this machine, which has {len(visible)}. Start the server with --gpus"
            )
        yield visible[index]


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


# ---------------------------------------------------------------- tokens


def _token_values(attempt: Attempt, tasks: Path, launch: Launch) -> dict[str, str]:
    values = {
        "output": str(attempt.output),
        "workflow_id": launch.key.workflow,
        "uuid": launch.uuid,
        "index": str(launch.index),
        "count": str(launch.count),
        **launch.array,
    }
    for pod in (name_in_array(each, launch.array) for each in launch.hosts):
        values[f"host:{pod}"] = ADDRESS
        if pod.endswith("-0"):  # A task with a count means its first pod.
            values.setdefault(f"host:{pod.removesuffix('-0')}", ADDRESS)
    for number, (name, keys) in enumerate(launch.inputs):
        outputs = [Attempt(tasks, key) for key in keys]
        # A task with a count always has a folder per pod, so that readers need not know the admitted count.
        alone = len(keys) == 1 and keys[0].task == name
        path = outputs[0].output if alone else _gather(attempt.folder / "inputs", name, outputs)
        values[f"input:{number}"] = values[f"input:{name}"] = str(path)
    return values


def _gather(inputs: Path, name: str, outputs: Iterable[Attempt]) -> Path:
    """Returns a folder with a link to each of *outputs*, named after the pod."""
    if not _INPUT.fullmatch(name):
        raise ValueError(f"input {name!r} cannot be a folder name. Use letters, digits, '-', '_', '.' and ':'")
    folder = inputs / name
    folder.mkdir(mode=0o700)
    for upstream in outputs:
        (folder / upstream.key.task).symlink_to(upstream.output)
    return folder


# ---------------------------------------------------------------- files


def _relocation(work: Path, files: Iterable[FileSpec], handed: Mapping[str, str]) -> Callable[[str], str]:
    """Returns a function that replaces a file's absolute path by its real path, where it appears as a whole path.

    *handed*: the same for credentials.
    """
    real = {file.path: str(work / file.path.lstrip("/")) for file in files if file.path.startswith("/")}
    real |= handed
    if not real:
        return str
    longest_first = "|".join(re.escape(path) for path in sorted(real, key=lambda path: (-len(path), path)))
    whole = re.compile(rf"(?<![{_IN_A_PATH}.*?)\]}}])(?:{longest_first})(?![{_IN_A_PATH}]|\.\w)")
    return lambda text: whole.sub(lambda match: real[match[0]], text)


def _write_file(work: Path, file: FileSpec, values: Mapping[str, str]) -> None:
    parts = PurePosixPath(file.path.lstrip("/")).parts
    if not parts or ".." in parts or "\0" in file.path:
        raise ValueError(f"file {file.path!r} is outside the task's folder. Use a path without '..'")
    data = contents_of(file, values)
    try:
        _create(work, parts, data)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(
            f"file {file.path!r} cannot be created: another file of the task, or of its code, has the same path"
        ) from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise ValueError(f"file {file.path[:80]!r}… cannot be created: a name in its path is too long") from None


def _create(work: Path, parts: tuple[str, ...], data: bytes) -> None:
    """Creates a file, opening step by step from *work* so that no link leads out of it. Scripts become executable."""
    folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=folder)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        mode = 0o700 if data.startswith(b"#!") else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(parts[-1], flags, mode, dir_fd=folder), "wb") as new:
            new.write(data)
    finally:
        os.close(folder)
