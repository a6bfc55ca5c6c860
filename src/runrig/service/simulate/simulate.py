"""`runrig simulate`: a scenario through an engine, without a server, a database or a clock.

    run = start(data, "borrow.yaml", Options(), read)
    for cycles in run.steps(): ...
    run.outcome()

A scenario is Kubernetes manifests or a cluster file with workflows; the field `apiVersion` tells them apart.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import yaml

from runrig.domain.errors import InvalidInput
from runrig.kueue.declared import GATES
from runrig.kueue.options import Options, parse_gates, parse_strategies
from runrig.service.simulate.scenario import ReadText
from runrig.spec.yamltree import LARGEST_TEXT
from runrig.wire.simulate import Outcome

if TYPE_CHECKING:
    from runrig.kueue.read import Manifests

__all__ = [
    "GATES", "Options", "Run", "is_kubernetes", "parse_gates", "parse_strategies", "start", "start_together",
]  # fmt: skip

_API_VERSION = "apiVersion"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WORD = re.compile(rb"apiVersion[\"']?[ \t]*:")
_AT_TOP = re.compile(rb"^(?:\{[ \t]*)?[\"']?apiVersion[\"']?[ \t]*:", re.MULTILINE)
_CONTENT = re.compile(rb"^(?![ \t\r]*(?:#|$|(?:---|\.\.\.)[ \t\r]*(?:#.*)?$)).", re.MULTILINE)


class Run(Protocol):
    """A running scenario."""

    def steps(self) -> Iterator[int]:
        """Runs; yields the number of cycles so far after each."""

    def outcome(self) -> Outcome:
        """Returns the outcome so far."""


def start_together(files: Iterable[tuple[str, bytes]], name: str, options: Options) -> Run:
    """Starts Kubernetes manifests in several *files* (name, text) as one cluster. Raises InvalidInput with all problems
    of the files.
    """
    from runrig.kueue.read import File, read_all
    from runrig.kueue.run import KueueRun

    manifests = read_all(File(file, text) for file, text in files)
    _check_read(manifests)
    return KueueRun(name, manifests, options)


def start(data: bytes | str, name: str, options: Options, read: ReadText) -> Run:
    """*read*: returns the text of workflow files named in a cluster scenario.

    Raises InvalidInput with all problems of the file, and the errors of a server for an inconsistent cluster.
    """
    if is_kubernetes(data):
        from runrig.kueue.read import read_manifests
        from runrig.kueue.run import KueueRun

        manifests = read_manifests(data, name)
        _check_read(manifests)
        return KueueRun(name, manifests, options)
    from runrig.service.simulate.cluster_run import ClusterRun
    from runrig.service.simulate.scenario import read_scenario

    return ClusterRun(name, read_scenario(data, read), options)


def _check_read(manifests: "Manifests") -> None:
    """Refuses a file without a single known object. An empty outcome would look like a result."""
    system = manifests.system
    read = (
        system.queues,
        system.cohorts,
        system.flavors,
        system.workloads,
        system.nodes,
        system.topologies,
        system.namespaces,
    )
    if manifests.warnings and not any(read):
        files = [f"{each.file}, " if each.file else "" for each in manifests.warnings]
        skipped = "; ".join(
            f"{file}document {each.document}: {each.message}"
            for file, each in zip(files, manifests.warnings, strict=True)
        )
        raise InvalidInput.one(f"nothing in {'these files' if any(files) else 'this file'} can be simulated: {skipped}")


def is_kubernetes(data: bytes | str) -> bool:
    """Whether a document in *data* has the field `apiVersion`, or if the file is empty."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > LARGEST_TEXT and _WORD.search(raw):
        # Longer than any valid cluster file, so the position of the word does not matter.
        return True
    if _AT_TOP.search(raw) or not _CONTENT.search(raw.removeprefix(_BYTE_ORDER_MARK)):
        return True
    return _WORD.search(raw) is not None and _top_has_it(raw)


def _top_has_it(raw: bytes) -> bool:
    """Whether a document has the word as a top-level key. Reads as far as the text can be parsed."""
    open_maps: list[bool] = []
    is_key = True
    try:
        for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                is_key = True
            elif isinstance(event, yaml.CollectionEndEvent):
                open_maps.pop()
                is_key ^= open_maps == [True]
            elif isinstance(event, yaml.CollectionStartEvent):
                open_maps.append(isinstance(event, yaml.MappingStartEvent))
            elif open_maps == [True]:
                if is_key and isinstance(event, yaml.ScalarEvent) and event.value == _API_VERSION:
                    return True
                is_key = not is_key
    except yaml.YAMLError:
        pass
    return False
