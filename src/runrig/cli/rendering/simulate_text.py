"""The result of a simulation as text: the tree with its usage, then each cycle, then warnings."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, show
from runrig.cli.rendering.tree import tree
from runrig.domain.balances import Balance
from runrig.domain.kueue import Pending
from runrig.domain.laws import cited
from runrig.domain.quantities import FlavorResource, counted, format_quantity
from runrig.wire.simulate import Admitted, Cycle, Outcome

_TREE = (
    Column("Name"),
    Column("Kind", 0),
    Column("Resource"),
    Column("Nominal", 2),
    Column("Used"),
    Column("Available", 3),
    Column("Borrowed", 1),
)
_QUEUE, _REASON = Column("Queue", 1), Column("Reason", prose=True)
_ADMITTED = (Column("Admitted"), _QUEUE, Column("Pods", prose=True), Column("Flavors", 0, prose=True))
_PREEMPTED = (Column("Preempted"), _QUEUE, Column("By"), _REASON)
_PENDING = (Column("Pending"), _QUEUE, Column("State", 0), _REASON)
_JOB = Column("Written into the Job", prose=True)
_LAWS = {
    "PRIORITY": f"higher priority in the same pool {cited('R1')}",
    "RECLAIM": f"its pool reclaims borrowed quota {cited('R2')}",
}
_POLICIES = {
    "InClusterQueue": "higher position in the same queue",
    "InCohortReclamation": "its queue reclaims borrowed quota",
    "InCohortReclaimWhileBorrowing": "its queue reclaims while borrowing",
    "InCohortFairSharing": "its queue has the smaller share",
}


def tell(outcome: Outcome) -> None:
    say(outcome.scenario)
    rows = list(_tree(outcome))
    if rows:
        say("")
        show(Table(_TREE, rows))
    if outcome.inactive:
        say("")
    for each in outcome.inactive:
        say(f"{each.kind} {each.name} is inactive ({each.reason}): nothing new starts in it")
    _tell_cycles(outcome.cycles)
    if outcome.warnings:
        say("\nWarnings")
        for warning in outcome.warnings:
            place = f"{warning.file}, " if warning.file else ""
            place += f"document {warning.document}: " if warning.document else ""
            say(f"  {place}{warning.path + ': ' if warning.path else ''}{warning.message}")


# ---------------------------------------------------------------- the tree


def _tree(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    """Yields a line per node and (flavor, resource), children after parents; changed numbers as ``1 → 4``."""
    held = {(each.kind, each.name): each.usage or () for each in outcome.inactive}
    for lines_before, node in tree(outcome.tree, attrgetter("key"), attrgetter("parent")):
        before = outcome.before.quotas.get(node.key, {})
        after = outcome.after.quotas.get(node.key, {})
        lines = [_numbers(key, before[key], after[key]) for key in sorted(before)]
        for key, amount in held.get((node.kind, node.name), ()):  # Cohorts in a cycle have no other number.
            lines.append((str(key), "-", format_quantity(key.resource, amount), "-", "-"))
        lines = lines or [("-",) * (len(_TREE) - 2)]
        for at, line in enumerate(lines):
            yield ((lines_before + node.name, node.kind) if at == 0 else ("", "")) + line


def _numbers(key: FlavorResource, old: Balance, new: Balance) -> tuple[str, ...]:
    def cell(was: int, now: int) -> str:
        first, last = (format_quantity(key.resource, amount) for amount in (was, now))
        return first if first == last else f"{first} → {last}"

    return (
        str(key),
        format_quantity(key.resource, old.nominal),
        cell(old.usage, new.usage),
        cell(old.available, new.available),
        cell(max(0, -old.balance), max(0, -new.balance)),
    )


# ---------------------------------------------------------------- cycles


def _tell_cycles(cycles: tuple[Cycle, ...]) -> None:
    """Skips workloads that wait for the same reason as before, and only counts cycles without a change."""
    told: dict[str, tuple[str, ...]] = {}
    quiet: list[int] = []
    for number, cycle in enumerate(cycles, start=1):
        rows = {each.workload: _waiting(each) for each in cycle.pending}
        news = [row for workload, row in rows.items() if told.get(workload) != row]
        told = rows
        if cycle.admitted or cycle.preempted or news:
            _tell_quiet(quiet)
            quiet = []
            _tell_cycle(number, cycle, news)
        else:
            quiet.append(number)
    _tell_quiet(quiet)


def _tell_quiet(numbers: list[int]) -> None:
    if numbers:
        which = f"Cycle {numbers[0]}" if len(numbers) == 1 else f"Cycles {numbers[0]} to {numbers[-1]}"
        say(f"\n{which}: nothing new")


def _tell_cycle(number: int, cycle: Cycle, news: list[tuple[str, ...]]) -> None:
    when = "" if cycle.at is None else f", at {cycle.at:.15g} s"
    say(f"\nCycle {number}{when}: {_summary(cycle)}")
    if cycle.admitted:
        rows = [_started(each) for each in cycle.admitted]
        _show(*_with_jobs(_ADMITTED, rows, [each.job for each in cycle.admitted]))
    if cycle.preempted:
        rows = [(each.workload, each.queue, each.by, _why(each.reason)) for each in cycle.preempted]
        _show(*_with_jobs(_PREEMPTED, rows, [each.job for each in cycle.preempted]))
    if news:
        _show(_PENDING, news)


def _show(columns: tuple[Column, ...], rows: Sequence[tuple[str, ...]]) -> None:
    say("")
    show(Table(columns, rows))


def _with_jobs(
    columns: tuple[Column, ...], rows: list[tuple[str, ...]], jobs: Sequence[Mapping[str, object] | None]
) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
    """Adds a column for the fields written to jobs, if there are any."""
    if all(job is None for job in jobs):
        return columns, rows
    return (*columns, _JOB), [(*row, "-" if job is None else _fields(job)) for row, job in zip(rows, jobs, strict=True)]


def _fields(job: Mapping[str, object]) -> str:
    """Returns them as in YAML: ``parallelism: 5, suspend: false``."""
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in job.items())


def _summary(cycle: Cycle) -> str:
    counts = (("admitted", cycle.admitted), ("preempted", cycle.preempted), ("pending", cycle.pending))
    skipped = sum(cycle.skipped.values())
    parts = [f"{len(found)} {name}" for name, found in counts if found]
    parts += [f"{counted(skipped, 'preemption')} put off"] if skipped else []
    return ", ".join(parts)


def _why(reason: str) -> str:
    return _LAWS.get(reason) or (f"{reason}: {_POLICIES[reason]}" if reason in _POLICIES else reason)


def _started(admitted: Admitted) -> tuple[str, ...]:
    several = len(admitted.pod_sets) > 1
    pods, flavors = [], []
    for each in admitted.pod_sets:
        name = f"{each.name} " if several else ""
        count = str(each.count) if each.count == each.asked else f"{each.count} of {each.asked} pods"
        where = ", ".join(f"{node} ({count})" if count > 1 else node for node, count in each.nodes)
        pods.append(name + count + (f" on {where}" if where else ""))
        chosen = dict.fromkeys(flavor for _, flavor in each.flavors)
        mixed = ", ".join(f"{resource}: {flavor}" for resource, flavor in each.flavors)
        flavors.append(mixed if len(chosen) > 1 else "".join(chosen))
    open_checks = " (quota only: checks are open)" if admitted.reserved_only else ""
    return (
        admitted.workload + open_checks,
        admitted.queue,
        "; ".join(pods),
        "; ".join(dict.fromkeys(filter(None, flavors))) or "-",
    )


def _waiting(pending: Pending) -> tuple[str, ...]:
    if pending.note:
        return pending.workload, pending.queue or "-", "held back", pending.note
    state = "parked" if pending.parked else "considered" if pending.considered else "in the queue"
    word = f"{pending.reason}: " if pending.reason else ""
    reasons = "; ".join(dict.fromkeys(str(reason) for reason in pending.reasons))
    return pending.workload, pending.queue, state, (word + reasons).removesuffix(": ") or "-"
