"""Which programs the harness runs, where they lie, and how those that are missing are built: ``python -m e2e.programs``.

Sources come through the Go module proxy, pinned by go.mod and go.sum of the small modules in `tools`.  What is built lies in the
user's cache, in a folder per module whose name changes with the pins, so that an edit of a pin builds anew.
A folder named by RUNRIG_E2E_BIN comes first: programs found there are taken as they are.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GIVEN = "RUNRIG_E2E_BIN"
CACHE = "RUNRIG_E2E_CACHE"
TOOLS = Path(__file__).parent / "tools"
KAI = ("kai-scheduler", "kai-binder")
KAI_KINDS = "kai-crds"
"""Folder beside given programs: KAI's definitions of its kinds."""


class Missing(Exception):
    """A program that a run needs is not there; says what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    module: str
    """Folder below `tools`."""
    package: str

    @property
    def place(self) -> Path:
        """Where a built one lies, whether or not it is there."""
        return cache() / f"{self.module}-{_pins(self.module)}" / self.name


BUILT = {
    each.name: each
    for each in (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        Program("helm", "helm", "helm.sh/helm/v3/cmd/helm"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("kube-apiserver", "kube", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program("kube-controller-manager", "kube", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Program("kube-scheduler", "kube", "k8s.io/kubernetes/cmd/kube-scheduler"),
    )
}


def cache() -> Path:
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runrig" / "e2e"
    return Path(os.environ.get(CACHE) or usual)


def find(name: str) -> Path | None:
    """The program called *name*: a given one, else a built one; None if there is none."""
    given = os.environ.get(GIVEN)
    places = [Path(given) / name] if given else []
    if name in BUILT:
        places.append(BUILT[name].place)
    return next((place for place in places if os.access(place, os.X_OK)), None)


def need(name: str) -> Path:
    """The same.  Raises Missing."""
    found = find(name)
    if found is None:
        raise Missing(f"no {name}: `make e2e` builds it, or name a folder that has it with {GIVEN}")
    return found


def need_all() -> None:
    """Raises Missing if one of those that a run cannot do without is not there."""
    for name in BUILT:
        need(name)


def kai() -> bool:
    """Whether KAI Scheduler is here: its programs and the definitions of its kinds."""
    return all(find(name) for name in KAI) and bool(kai_kinds())


def kai_kinds() -> list[Path]:
    given = os.environ.get(GIVEN)
    return sorted((Path(given) / KAI_KINDS).glob("*.yaml")) if given else []


def version(module: str, of: str) -> str:
    """The version of *of* that the module's go.mod pins."""
    found = re.search(rf"^\s*{re.escape(of)} (v\S+)", (TOOLS / module / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, f"{of} is not in the go.mod of {module}"
    return found[1]


def build(program: Program) -> float:
    """Seconds that it took.  Raises Missing if there is no Go, or with the last words of Go."""
    if shutil.which("go") is None:
        raise Missing(
            f"no Go to build {program.name} with: run `make e2e`, which brings one, or name a folder that has the program with {GIVEN}"
        )
    place = program.place
    place.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with alone(place.parent / ".lock"):
        if not place.exists():
            unfinished = place.with_suffix(".part")
            flags = ["-trimpath", f"-ldflags={_flags(program.module)}"]
            command = ["go", "build", *flags, "-o", str(unfinished), program.package]
            environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
            done = subprocess.run(
                command, cwd=TOOLS / program.module, env=environment, stderr=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                raise Missing(f"Go cannot build {program.name}:\n{done.stderr[-2000:]}")
            unfinished.rename(place)
    return time.monotonic() - started


def _flags(module: str) -> str:
    """Kubernetes learns its version at link time; without it the server says v0.0.0, and clients decide by that."""
    if module != "kube":
        return "-s -w"
    pinned = version(module, "k8s.io/kubernetes")
    major, minor = pinned.removeprefix("v").split(".")[:2]
    said = {"gitVersion": pinned, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {package}.{key}={value}" for package in packages for key, value in said.items())])


def _pins(module: str) -> str:
    texts = [(TOOLS / module / name).read_bytes() for name in ("go.mod", "go.sum")]
    return hashlib.sha256(b"".join([*texts, _flags(module).encode()])).hexdigest()[:12]


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    for program in BUILT.values():
        found = find(program.name)
        if found is None:
            print(f"building {program.name} ...", flush=True)
            try:
                took = build(program)
            except Missing as missing:
                print(missing, file=sys.stderr)
                return 2
            print(f"  {took:.0f} s: {program.place}", flush=True)
        else:
            print(f"{program.name}: {found}")
    if not kai():
        print(f"KAI Scheduler: not here ({GIVEN}, docs/kubernetes-tests.md): tests that need it are left out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
