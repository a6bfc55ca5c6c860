"""Generates clusters for experiments: a cluster file of a shape, and workflows that use a share of its GPUs.

Equal shapes give equal files on every version of Python: only `random()` is used, whose sequence never changes.  The command
is `python -m demo.clusters`.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import accumulate, groupby, product
from random import Random

from runrig.domain.quantities import CPU, MEMORY, parse_quantity
from runrig.spec.nodes import MOST_NODES

Spread = int | tuple[int, int]
"""A number, or the range from which a number is drawn for each part."""

ZONE, SPINE, RACK = (f"topology.kubernetes.io/{level}" for level in ("zone", "spine", "rack"))
CLIQUE = "nvidia.com/gpu-clique"
HOST = "kubernetes.io/hostname"

NVL72_NODES, NVL72_GPUS = 18, 4
MOST_POOLS = 26
MOST_ENTRIES = 3_000
"""Maximum number of nodes that a cluster file can list individually."""

LARGEST_GANG = 16
GANGS_PER_FILE = 25
_HOURS = (6, 72)


@dataclass(frozen=True, slots=True)
class Shape:
    """zones × spines × racks × nodes × GPUs: each number counts the parts of one part above it.

    *memory* is a Kubernetes quantity, *cpu* whole cores, both of a node.  *cordoned*: how many nodes, anywhere.  *pools* share the
    GPUs of the others evenly, in whole nodes.  *nvl72*: a rack is one NVLink clique, with its label.  *host_key*: pools have
    a fourth key, the node itself.  Raises ValueError with a sentence.
    """

    zones: int = 2
    spines: int = 2
    racks: Spread = 4
    nodes: Spread = 16
    gpus: int = 8
    cpu: int = 96
    memory: str = "1Ti"
    cordoned: int = 0
    pools: int = 3
    seed: int = 1
    nvl72: bool = False
    host_key: bool = False

    def __post_init__(self) -> None:
        for name in ("zones", "spines", "racks", "nodes", "gpus", "cpu", "pools"):
            least, most = span(getattr(self, name))
            if least < 1:
                raise ValueError(f"{name} is {least}, but must be at least 1")
            if most < least:
                raise ValueError(f"{name} is reversed. Use {most}-{least}")
        most_nodes = self.zones * self.spines * span(self.racks)[1] * span(self.nodes)[1]
        if most_nodes > MOST_NODES:
            raise ValueError(f"up to {most_nodes:,} nodes are too many (maximum {MOST_NODES:,})")
        if self.cordoned < 0:
            raise ValueError(f"cordoned is {self.cordoned}, but must be at least 0")
        if self.pools > MOST_POOLS:
            raise ValueError(f"{self.pools} pools are too many (maximum {MOST_POOLS})")
        if parse_quantity(MEMORY, self.memory) == 0:
            raise ValueError(f"memory is {self.memory}, but must be more than 0")

    @property
    def even(self) -> bool:
        return all(least == most for least, most in map(span, (self.racks, self.nodes)))

    @property
    def pool_names(self) -> list[str]:
        return [f"team-{chr(ord('a') + index)}" for index in range(self.pools)]

    @property
    def command(self) -> str:
        """The command for this shape: always with its sizes, and with other options unless they have their defaults."""
        sizes = ("zones", "spines", "racks", "nodes", "gpus", "pools")
        words = ["--nvl72"] if self.nvl72 else []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "nvl72" or not (field.name in sizes or value != field.default):
                continue
            option = f"--{field.name.replace('_', '-')}"
            words += [option] if value is True else [option, shlex.quote(_written(value))]
        return " ".join(("python -m demo.clusters", *words))


def span(spread: Spread) -> tuple[int, int]:
    return spread if isinstance(spread, tuple) else (spread, spread)


def _written(value: object) -> str:
    if isinstance(value, tuple):
        least, most = value
        return str(least) if least == most else f"{least}-{most}"
    return str(value)


def _draw(chance: Random, spread: Spread) -> int:
    least, most = span(spread)
    return least + int(chance.random() * (most - least + 1))


# ---------------------------------------------------------------- nodes


@dataclass(frozen=True, slots=True)
class Rack:
    """Zones, spines and racks are numbered through the whole cluster, nodes as well: this one has those from *first*, *size* of them."""

    zone: int
    spine: int
    number: int
    first: int
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A shape whose random choices have been made."""

    shape: Shape
    racks: tuple[Rack, ...]
    cordoned: frozenset[int]

    @property
    def nodes(self) -> int:
        return self.racks[-1].first + self.racks[-1].size

    @property
    def ready_gpus(self) -> int:
        return (self.nodes - len(self.cordoned)) * self.shape.gpus

    @property
    def quota(self) -> int:
        """The quota of each pool: GPUs of whole nodes, so the sum can be slightly less than the cluster has."""
        return (self.nodes - len(self.cordoned)) // self.shape.pools * self.shape.gpus


def layout(shape: Shape) -> Layout:
    """Raises ValueError for fewer ready nodes than pools, or more entries than a cluster file can have."""
    chance = Random(shape.seed)
    spines = list(product(range(shape.zones), range(shape.spines)))
    places = [(zone, number) for number, (zone, _) in enumerate(spines) for _ in range(_draw(chance, shape.racks))]
    sizes = [_draw(chance, shape.nodes) for _ in places]
    firsts = accumulate(sizes, initial=0)
    racks = tuple(
        Rack(zone, spine, number, first, size)
        for number, ((zone, spine), first, size) in enumerate(zip(places, firsts, sizes, strict=False))
    )
    nodes = sum(sizes)
    if nodes - shape.cordoned < shape.pools:
        raise ValueError(
            f"{nodes} nodes, {shape.cordoned} of them cordoned, are too few for {_count(shape.pools, 'pool')}. Each gets whole nodes"
        )
    found = Layout(shape, racks, frozenset(_chosen(chance, nodes, shape.cordoned)))
    entries = 2 * len(found.cordoned) + (1 if shape.even else len(racks))
    if entries > MOST_ENTRIES:
        raise ValueError(
            f"uneven racks and cordoned nodes are listed individually, which takes {entries:,} entries (maximum {MOST_ENTRIES:,})"
        )
    return found


def _chosen(chance: Random, nodes: int, count: int) -> list[int]:
    """*count* different numbers below *nodes*."""
    left = list(range(nodes)) if count else []
    for index in range(count):
        other = _draw(chance, (index, nodes - 1))
        left[index], left[other] = left[other], left[index]
    return left[:count]


def _entries(found: Layout) -> Iterator[str]:
    """Yields the entries of `nodes` by number: patterns for the nodes between two cordoned ones."""
    blocks = [(0, found.nodes, None)] if found.shape.even else [(r.first, r.first + r.size, r) for r in found.racks]
    for first, end, rack in blocks:
        labels = partial(_labels, found.shape, rack)
        start = first
        for number in sorted(each for each in found.cordoned if first <= each < end):
            if start < number:
                yield _entry(found, start, number - 1, labels(start, number - 1))
            yield _entry(found, number, number, labels(number, number), cordoned=True)
            start = number + 1
        if start < end:
            yield _entry(found, start, end - 1, labels(start, end - 1))


def _labels(shape: Shape, rack: Rack | None, first: int, last: int) -> tuple[str, str, str]:
    """The zone, spine and rack of the nodes *first* to *last*.  *rack* None: the cluster is even, so they follow from the number."""
    if rack is not None:
        return f"z{rack.zone}", f"s{rack.spine}", f"r{rack.number}"
    per_rack = span(shape.nodes)[0]
    per_spine = span(shape.racks)[0] * per_rack
    sizes = (("z", shape.spines * per_spine), ("s", per_spine), ("r", per_rack))
    zone, spine, of_rack = (
        f"{letter}{first // size}" if first // size == last // size else f"{letter}{{n//{size}}}"
        for letter, size in sizes
    )
    return zone, spine, of_rack


def _entry(found: Layout, first: int, last: int, levels: tuple[str, str, str], *, cordoned: bool = False) -> str:
    shape, width = found.shape, len(str(found.nodes - 1))
    name = f"n{first:0{width}}" if first == last else f'"n{{{first:0{width}}..{last:0{width}}}}"'
    resources = f"{{gpu: {shape.gpus}, cpu: {shape.cpu}, memory: {shape.memory}}}"
    labels = ", ".join(
        f'{key}: "{value}"' if "{" in value else f"{key}: {value}"
        for key, value in zip(_keys(shape).values(), levels, strict=False)
    )
    return f"- {{name: {name}, resources: {resources}, labels: {{{labels}}}{', cordoned: true' * cordoned}}}"


def _keys(shape: Shape) -> dict[str, str]:
    """Key → label, coarse to fine."""
    keys = {"zone": ZONE, "spine": SPINE, "rack": CLIQUE if shape.nvl72 else RACK}
    return keys | ({"host": HOST} if shape.host_key else {})


# ---------------------------------------------------------------- the file


def cluster(shape: Shape) -> str:
    """Returns a cluster file for the simulated backend, which `runrig.spec.cluster` reads.  Raises as `layout`."""
    return "".join(f"{line}\n" for line in (f"# {shape.command}", *_cluster_lines(layout(shape))))


def _cluster_lines(found: Layout) -> Iterator[str]:
    shape = found.shape
    yield f"# {outline(found)}"
    yield "backend: {name: lab, type: simulated}"
    yield "nodes:"
    yield from _entries(found)
    yield "pools:"
    for index, name in enumerate(shape.pool_names):
        yield f"- name: {name}"
        yield f"  quota: {found.quota}"
        # The others point to the keys of the first.
        yield f"  topology_keys: {'*keys' if index else '&keys' if shape.pools > 1 else ''}".rstrip()
        if not index:
            yield from (f"  - {{key: {key}, label: {label}}}" for key, label in _keys(shape).items())


def outline(found: Layout) -> str:
    """``2 zones, 4 spines, 16 racks of 16 nodes, 8 GPUs each: 256 nodes, 2,048 GPUs; 2 nodes are cordoned``"""
    shape = found.shape
    sizes = sorted({rack.size for rack in found.racks})
    of = _count(sizes[0], "node") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} nodes"
    parts = (_count(shape.zones, "zone"), _count(shape.zones * shape.spines, "spine"), _count(len(found.racks), "rack"))
    sums = f"{_count(found.nodes, 'node')}, {_count(found.nodes * shape.gpus, 'GPU')}"
    down = len(found.cordoned)
    cordoned = f"; {_count(down, 'node')} {'is' if down == 1 else 'are'} cordoned" if down else ""
    return f"{', '.join(parts)} of {of}, {_count(shape.gpus, 'GPU')} each: {sums}{cordoned}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"


# ---------------------------------------------------------------- work that fills it


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """A LOW gang: *pods* of *gpus* GPUs each, for *hours*."""

    gpus: int
    pods: int
    hours: int


@dataclass(frozen=True, slots=True)
class Filling:
    """*files*: name → text of each workflow file; *scenario*: the cluster with all of them, for `runrig simulate`.

    *gpus*: used by all *gangs* gangs together.
    """

    files: dict[str, str]
    scenario: str
    gpus: int
    gangs: int


def filling(shape: Shape, percent: int) -> Filling:
    """Returns workflows that use *percent* of the GPUs on ready nodes, rounded.  Raises ValueError.

    All of them fit: larger pods come first, and each size divides the larger ones and the node.
    """
    if not 1 <= percent <= 100:
        raise ValueError(f"fill is {percent}, but must be from 1 to 100 percent")
    found = layout(shape)
    wanted = (found.ready_gpus * percent + 50) // 100
    batches = sorted(_batches(shape, wanted), reverse=True)
    files, lines = {}, []
    for name, pool, of_file in _dealt(shape, batches):
        files[f"{name}.yaml"] = _workflow(shape, name, of_file)
        lines.append(f"- {{file: {name}.yaml, pool: {pool}}}")
    head = f"# {shape.command} --fill {percent}"
    scenario = "".join(f"{line}\n" for line in (head, *_cluster_lines(found), "workflows:", *lines))
    return Filling(files, scenario, wanted, len(batches))


def _batches(shape: Shape, wanted: int) -> Iterator[Batch]:
    chance = Random(shape.seed)
    sizes = _sizes(shape.gpus)
    while wanted:
        gpus = sizes[_draw(chance, (0, len(sizes) - 1))]
        # One in three gangs has several pods; with whole nodes, it spans several nodes.
        pods = _draw(chance, (2, 4)) if chance.random() < 1 / 3 else 1
        pods = min(pods, max(1, LARGEST_GANG // gpus), wanted // gpus)
        hours = _draw(chance, _HOURS)
        if pods:
            yield Batch(gpus, pods, hours)
            wanted -= pods * gpus


def _sizes(gpus: int) -> list[int]:
    """Returns sizes of pods in GPUs: the node's, halved while even, up to 16; and 1.  Each divides all larger ones."""
    sizes = [gpus]
    while sizes[-1] % 2 == 0:
        sizes.append(sizes[-1] // 2)
    return sorted({1, *(size for size in sizes if size <= LARGEST_GANG)})


def _dealt(shape: Shape, batches: Sequence[Batch]) -> list[tuple[str, str, list[Batch]]]:
    """Yields (name, pool, gangs) of each workflow, by submission.  Pods of a file are equal; the pool with the least gets the next gang."""
    dealt: list[tuple[int, str, list[Batch]]] = []
    held = dict.fromkeys(shape.pool_names, 0)
    files = dict.fromkeys(held, 0)
    for _, equal in groupby(batches, key=lambda batch: batch.gpus):
        hands: dict[str, list[Batch]] = {pool: [] for pool in held}
        for batch in equal:
            pool = min(held, key=lambda name: held[name])
            held[pool] += batch.gpus * batch.pods
            hands[pool].append(batch)
        for pool, hand in hands.items():
            for start in range(0, len(hand), GANGS_PER_FILE):
                files[pool] += 1
                dealt.append((files[pool], pool, hand[start : start + GANGS_PER_FILE]))
    width = len(str(max(files.values())))
    return [(f"{pool}-{number:0{width}}", pool, hand) for number, pool, hand in dealt]


def _workflow(shape: Shape, name: str, batches: Sequence[Batch]) -> str:
    """Returns a workflow file whose gangs are independent tasks."""
    lines = [
        "workflow:",
        f"  name: {name}",
        "  priority: LOW",
        "  resources:",
        f"    default: {_share(shape, batches[0].gpus)}",
    ]
    lines.append("  tasks:")
    for index, batch in enumerate(batches):
        count = f", count: {batch.pods}" if batch.pods > 1 else ""
        what = f"name: batch-{index:02}, image: trainer, command: [train]"
        lines.append(f"  - {{{what}{count}, duration: {batch.hours}h}}")
    return "".join(f"{line}\n" for line in lines)


def _share(shape: Shape, gpus: int) -> str:
    """Returns the requests of a pod with *gpus* GPUs: the same share of the node's CPU and memory, rounded down."""
    cpu = shape.cpu * gpus // shape.gpus
    memory = parse_quantity(MEMORY, shape.memory) * gpus // shape.gpus // 2**30
    return f"{{gpu: {gpus}{f', {CPU}: {cpu}' if cpu else ''}{f', {MEMORY}: {memory}Gi' if memory else ''}}}"
