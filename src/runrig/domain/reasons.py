"""Why a gang is waiting: the rule that blocks it, where, and the numbers. A Reason prints as a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from runrig.domain.after import must
from runrig.domain.budgets import Owner, reached_in_words
from runrig.domain.older_gangs import Older, Share
from runrig.domain.quantities import (
    GPU,
    amount_in_a_sentence,
    amount_in_words,
    amount_of_flavor,
    counted,
    kind_of_flavor,
    listed,
    own_and_shared,
)
from runrig.domain.value import NO_AMOUNTS, Amounts, Shown, Word, at, shown_as, utc


class Code(Word):
    """The kinds of reasons. There are few, so they can be metric labels; each belongs to a rule. *headline*: a short form for lists;
    empty for reasons of imported queues.
    """

    headline: str

    def __new__(cls, value: str, headline: str = "") -> Self:
        code = str.__new__(cls, value)
        code._value_, code.headline = value, headline
        return code

    HELD = "OnHold", "on hold ({where})"
    SET_ASIDE = "SetAside", "set aside: internal error"
    PAUSED = "PoolPaused", "pool {where} is paused"
    BUDGET = "BudgetReached", "budget reached: none of {own} left in {where}"
    UPSTREAM = "WaitsForUpstream", "after {holders}"
    AFTER = "WaitsForWorkflow", "after {holders}"
    ARRAY = "ArrayLimit", "array: {most} at a time"
    QUOTA_FULL = "QuotaFull", "quota: {have} left in {where}, needs {need}"
    BORROWING_LIMIT = "BorrowingLimit", "borrowing limit: {have} left in {where}, needs {need}"
    NO_IDLE_TO_BORROW = "NoIdleToBorrow", "idle quota: {have} in {where}, needs {need}"
    COHORT_CYCLE = "CohortCycle", "cohort cycle: {where}"
    USER_LIMIT = "UserLimit", "limit of its user: {have} of {own} in use in {where}"
    EXCEEDS_POTENTIAL = "ExceedsPotential", "can never start: {where} has at most {have}, needs {need}"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor", "can never start: no {resource} in {where}"
    MISCONFIGURED = "Misconfigured"
    REQUESTS_NOTHING = "RequestsNothing", "can never start: no request"
    NO_ROOM_ON_NODES = "NoRoomOnNodes", "nodes: {have} of {need} pods {fit}"
    NO_DOMAIN_FITS = "NoDomainFits", "{where}: {have} of {need} pods {fit}"
    NOT_ALL_GROUPS_FIT = "NotAllGroupsFit", "{where}: groups do not fit together"
    KEYS_CHANGED = "TopologyKeysChanged", "topology keys of {where} changed"
    PLACEMENT_NOT_PROVEN = "PlacementNotProven", "no placement found (search limit)"
    BEHIND_HEAD = "BehindHeadOfQueue", "behind {holders}"
    KAI_NOT_PLACED = "KaiNotPlaced", "not placed by the cluster"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    WAITS_FOR_TARGETS = "WaitsForTargets", "waiting for {holders} to stop"
    NO_TARGETS = "NoTargets", "nothing to preempt"
    WOULD_BORROW = "WouldBorrow", "{where} would borrow {need}, so it reclaims nothing"
    NO_EMPTY_NODES = "NoEmptyNodes", "can never start: {have} of {need} pods {fit} on empty nodes"
    NOT_CONSIDERED = "NotConsideredYet", "not evaluated yet"


@dataclass(frozen=True, slots=True)
class DomainRoom(Shown):
    """A domain that comes close: *have* pods would fit.

    *missing*: what it lacks in total, by resource; empty if its free amounts are only too scattered.
    *closed*: number of its nodes that accept no pods, because they are not ready, cordoned or tainted. *spoken*: the part of
    *missing* that is reserved there for other gangs.
    """

    domain: tuple[str, ...]
    have: int
    missing: Amounts = NO_AMOUNTS
    closed: int = 0
    spoken: Amounts = NO_AMOUNTS

    def __str__(self) -> str:
        fits = f"fits {self.have or 'no'} {'pod' if self.have == 1 else 'pods'}"
        return f"{'/'.join(self.domain)} ({fits}, {lacking(self.missing)})"


shown_as(DomainRoom(("zone-a", "rack-3"), 6, Amounts({"gpu": 16}), closed=2, spoken=Amounts({"gpu": 8})))


class Part(Word):
    """The role of a pool or cohort in a reason.

    HOLDS: it uses the amount. LENDING_LIMIT: it has the amount idle, withheld by its lending limit. DELETING: it is DELETING and
    still uses the amount. PROTECTED: LOW work that cannot be preempted uses the amount (rule R2).
    """

    HOLDS = "holds"
    LENDING_LIMIT = "keeps"
    DELETING = "drains"
    PROTECTED = "safe"


@dataclass(frozen=True, slots=True)
class Concerned(Shown):
    """A pool or cohort that a reason is about, with an amount of its resource.

    *part*: `holds`: uses it; `keeps`: withholds it, idle, by its lending limit; `drains`: is DELETING and still uses it;
    `safe`: it is in use by LOW work that cannot be preempted. *name* null: the total of pools that you cannot see.
    """

    part: Part
    name: str | None
    amount: int


shown_as(Concerned(Part.HOLDS, "vision", 4))


@dataclass(frozen=True, slots=True)
class Reason(Shown):
    """Why a group is waiting. *have* and *need* are amounts of *resource* at *where*; *sentence* says the same in words.

    *domains*: the closest domains of the level, if none has enough. *own*: the pool's quota, for USER_LIMIT and BUDGET the limit;
    *shared*: cohort → what it guarantees on top. *gangs*: how many candidates use *have*, if the reason is about preemption; otherwise 0.
    """

    UNTOLD = ("at_least", "named", "since", "until", "share", "older", "said", "stopped")

    code: Code
    law: str
    where: str = ""
    """For SET_ASIDE the workflow, or the pool or user (*stopped*), for HELD the user who put it on hold, for AFTER how the holder must
    end. Empty for a USER_LIMIT and a BUDGET of a user. *gangs*, *have* and *need* of ARRAY: the elements, those that are running or
    queued, and how many may be."""
    resource: str = ""
    """``flavor/resource``."""
    have: int = 0
    need: int = 0
    holders: tuple[str, ...] = ()
    """Gang ids."""
    domains: tuple[DomainRoom, ...] = ()
    own: int = 0
    shared: Amounts = NO_AMOUNTS
    """For QUOTA_FULL (rule P2)."""
    concerned: tuple[Concerned, ...] = ()
    """Sorted by part, largest amount first."""
    gangs: int = 0
    sentence: str = ""
    """The reason as a sentence without names that the reader may not see; empty until they are hidden (`service.queries.redaction`)."""
    at_least: bool = False
    """*need* is what the smallest accepted gang needs, which has fewer pods than requested (rule A1)."""
    named: bool = False
    """The cluster has *resource* in several flavors, so sentences name the flavor."""
    since: float | None = None
    """For HELD, PAUSED and SET_ASIDE, in seconds since the epoch; None: several workflows."""
    until: float | None = None
    """For PAUSED: when the pause ends by itself. For BUDGET: when it renews."""
    share: Share = Share.ALL
    """For QUOTA_FULL."""
    older: tuple[Older, ...] = ()
    """For QUOTA_FULL."""
    said: str = ""
    """For PAUSED: why, in the words of who paused it; may be empty. For USER_LIMIT and BUDGET: the user."""
    stopped: str = ""
    """For STOPPED: what is stopped; empty: the queue. For BUDGET: the priorities that still start. For SET_ASIDE: `pool` or
    `user`, if it is the pause or budget of one; empty: a workflow."""

    def __str__(self) -> str:
        in_words = _of_quota if self.code in _QUOTAS else _of_pods if self.code in _PODS else _of_order
        return in_words(self)

    @property
    def headline(self) -> str:
        template = getattr(self.code, "headline", "")  # A code of a newer server has none.
        if self.have < 0 and self.code in _OVER:
            template = template.partition(":")[0] + ": {where} is {over} over, needs {need}"
        if self.code in _PODS and self.need == 1:
            template = _HEADLINES_OF_ONE.get(self.code, template)
        return template.format(
            where=self.where or "all pools",
            resource=self.resource,
            own=counted(self.own, "GPU-hour" if self.code is Code.BUDGET else "GPU"),
            have=f"{self.have:,}" if self.code in {*_PODS, Code.USER_LIMIT, Code.BUDGET} else self.amount(self.have),
            over=self.amount(-self.have),
            fit="fits" if self.have == 1 else "fit",
            most=self.need,
            need=self.need if self.code in _PODS else amount_in_a_sentence(self.resource.partition("/")[2], self.need),
            holders="".join(self.holders[:1] or ("others",))
            + f" and {len(self.holders) - 1} more" * (len(self.holders) > 1),
        )

    def amount(self, amount: int) -> str:
        """*amount* with its unit: ``4 GPUs``."""
        return amount_of_flavor(self.resource, amount, named=self.named)

    def plain(self, amount: int) -> str:
        """Like `amount`, but without the flavor, which a sentence names only once."""
        return amount_in_words(self.resource.partition("/")[2], amount)


shown_as(
    Reason(
        Code.QUOTA_FULL,
        "P2",
        "vision",
        "default/gpu",
        have=2,
        need=4,
        holders=("train-1",),
        sentence="needs 4 GPUs, but pool vision has only 2 GPUs left of its quota; in use by train-1",
    )
)

CLOSEST = ". Closest: "
"""Separates the sentence of a reason from its domains, which tables show on separate lines."""

IN_USE_BY = "; in use by "
"""Separates the sentence of a QUOTA_FULL from the gangs that use the quota."""

_QUOTAS = {
    Code.QUOTA_FULL,
    Code.BORROWING_LIMIT,
    Code.NO_IDLE_TO_BORROW,
    Code.EXCEEDS_POTENTIAL,
    Code.NO_TARGETS,
    Code.WOULD_BORROW,
}
"""Codes whose *have* and *need* are amounts of a resource."""

_PODS = {Code.NO_ROOM_ON_NODES, Code.NO_DOMAIN_FITS, Code.NO_EMPTY_NODES, Code.PLACEMENT_NOT_PROVEN}
"""Codes whose *have* and *need* are pods."""


def _of_quota(it: Reason) -> str:
    needs = f"needs{' at least' if it.at_least else ''} {it.amount(it.need)}"
    have, over = it.plain(it.have), it.plain(-it.have)
    if it.code is Code.QUOTA_FULL:
        return f"{needs}, but {_quota_left(it)}{_in_use(it)}"
    if it.code is Code.BORROWING_LIMIT:
        if it.have < 0:
            return f"{needs}, but {it.where} is {over} over its borrowing limit"
        return f"{needs}, but {it.where} is {f'only {have} below' if it.have else 'at'} its borrowing limit"
    if it.code is Code.NO_IDLE_TO_BORROW:
        if it.have < 0:
            return f"{needs}, but {it.where} is {over} over its quota"
        return f"{needs}, but {it.where} has {f'only {have} of' if it.have else 'no'} idle quota"
    if it.code is Code.EXCEEDS_POTENTIAL:
        return f"can never start: {needs}, but {'queue ' * (it.law == 'Q4')}{it.where} can get at most {have}"
    if it.code is Code.WOULD_BORROW:
        return f"queue {it.where} would have to borrow {it.amount(it.need)}, so it cannot reclaim what it lent (borrowWithinCohort: Never)"
    if not it.gangs:
        return f"no workflow that it can preempt uses {kind_of_flavor(it.resource, named=it.named)}"
    all_of_them = "the only candidate" if it.gangs == 1 else f"all {it.gangs} candidates"
    if it.have >= it.need:
        return f"preempting {all_of_them} frees {have}, but not enough on the right nodes"
    return f"{needs}, but preempting {all_of_them} frees only {have}"


def _quota_left(it: Reason) -> str:
    """``pool vision has only 2 GPUs left of its quota``."""
    who, are, have = f"{'queue' if it.law == 'Q3' else 'pool'} {it.where}", "is", "has"
    quota = "its unallocated quota" if it.share is Share.OWN else "its quota"
    if it.shared:
        guaranteed = it.plain(it.own + sum(it.shared.values()))
        quota = f"its guaranteed {guaranteed} ({own_and_shared(it.own, it.shared, it.resource)})"
    elif it.share is Share.SUBTREE:
        who, are, have, quota = f"{who} and its subpools", "are", "have", "their quota"
    if it.have < 0:
        return f"{who} {are} {it.plain(-it.have)} over {quota}"
    if it.have or it.shared:
        return f"{who} {have} {f'only {it.plain(it.have)}' if it.have else 'nothing'} left of {quota}"
    return f"{who} {have} no {quota.partition(' ')[2]} left"


def _in_use(it: Reason) -> str:
    older = {each for older in it.older for each in older.gangs}
    by = "" if older.issuperset(it.holders) else IN_USE_BY + listed(it.holders)
    return "; ".join((by, *map(str, it.older)))


def _of_pods(it: Reason) -> str:
    pods = f"its minimum of {it.need} pods" if it.at_least else "both pods" if it.need == 2 else f"all {it.need} pods"
    fit = f"{it.have or 'none'} of {pods if it.at_least else f'{it.need} pods'} {'fits' if it.have == 1 else 'fit'}"
    one = it.need == 1
    if it.code is Code.PLACEMENT_NOT_PROVEN:
        return f"no placement found for {'its pod' if one else pods} within the search limit"
    if it.code is Code.NO_ROOM_ON_NODES:
        return "no node has room for its pod" if one else f"not enough free nodes: {fit}"
    if it.code is Code.NO_EMPTY_NODES and one:
        return f"can never start: its pod does not fit on any node of {it.where}, even an empty one"
    if it.code is Code.NO_EMPTY_NODES:
        return f"can never start: {fit} on the nodes of {it.where}, even if all were empty"
    closest = CLOSEST + ", ".join(map(str, it.domains)) if it.domains else ""
    if one:
        return f"no {it.where} has room for its pod{closest}"
    return f"no {it.where} has room for {pods}; the best fits {it.have or 'none'}{closest}"


def _of_order(it: Reason) -> str:
    since = "" if it.since is None else f" at {utc(at(it.since))}"
    match it.code:
        case Code.HELD:
            return f"put on hold by {it.where}{since}"
        case Code.PAUSED:
            said = f" ({it.said})" if it.said else ""
            until = "" if it.until is None else f" until {utc(at(it.until))}"
            return f"pool {it.where} was paused{since}{until}{said}; ask an administrator to run `runrig pool resume {it.where}`"
        case Code.BUDGET:
            return reached_in_words(it.where, it.said, it.own, it.until, low=bool(it.stopped))
        case Code.SET_ASIDE if it.stopped:
            whose = f"the {'pause or ' * (it.stopped == Owner.POOL)}budget of {'pool ' * (it.stopped == Owner.POOL)}{it.where}"
            return f"{whose} was set aside after an internal error and stays as it is; the server tries again every 5 minutes"
        case Code.SET_ASIDE:
            ways = "retry it with `runrig workflow release {0}`, or end it with `runrig workflow cancel {0}`"
            return f"set aside{since} after an internal error; {ways.format(it.where)}"
        case Code.UPSTREAM:
            return f"{'group' if len(it.holders) == 1 else 'groups'} {listed(it.holders)} must complete first"
        case Code.AFTER:
            return f"{listed(it.holders)} must {must(it.where)} first"
        case Code.ARRAY:
            running = f"{it.have} of its {it.gangs} elements {'is' if it.have == 1 else 'are'} running or queued"
            return f"{running}, and at most {it.need} may run at a time"
        case Code.USER_LIMIT:
            return _user_limit(it)
        case Code.NO_MATCHING_FLAVOR:
            return _no_flavor(it)
        case Code.STOPPED:
            return f"{it.stopped or f'queue {it.where}'} is stopped; nothing starts until it is resumed"
        case Code.WAITS_FOR_TARGETS:
            return f"{listed(it.holders) or 'preempted work'} must stop first"
    template = _SENTENCES.get(it.code)  # None: the code of a newer server, which sent its sentence
    return (
        template.format(where=it.where, resource=it.resource, holders=listed(it.holders)) if template else it.sentence
    )


_SENTENCES = {
    Code.COHORT_CYCLE: "the cohorts above {where} form a cycle; nothing below them can start until an administrator breaks it",
    Code.MISCONFIGURED: "queue {where} does not accept this workload; check the warnings and its namespaceSelector",
    Code.REQUESTS_NOTHING: "can never start: pod set {resource} requests no resource of queue {where}; add a request, such as cpu",
    Code.NOT_ALL_GROUPS_FIT: "each of its groups fits in a {where}, but not all of them at the same time",
    Code.KEYS_CHANGED: "the topology keys of {where} changed after submission; cancel it and submit it again",
    Code.BEHIND_HEAD: "behind {holders}, the head of a STRICT_FIFO queue",
    Code.KAI_NOT_PLACED: "the cluster did not place or keep it ({where}); retried when its pool or a usable node changes, "
    "or after at most 1 hour",
    Code.FLAVOR_NOT_FOUND: "queue {where} uses flavor {resource}, which is not defined",
    Code.NOT_CONSIDERED: "queued; not evaluated yet",
}
"""Sentences that differ only in names."""


def _user_limit(it: Reason) -> str:
    needs = f"needs{' at least' if it.at_least else ''} {amount_in_words(GPU, it.need)}"
    limit = f"the limit of {f'{it.where} for one user' if it.where else f'{it.said} over all pools'} is {it.own}"
    if it.need > it.own:
        return f"can never start: {needs}, and {limit}"
    return f"{it.said} uses {amount_in_words(GPU, it.have)}; {limit}" + f", and it {needs}" * (it.have < it.own)


def _no_flavor(it: Reason) -> str:
    """In an imported queue, a flavor may exist without quota for the resource or nodes that the pods can use."""
    if it.law == "Q2":
        return f"its pods cannot use {it.resource} in queue {it.where}"
    return f"can never start: {it.where} has no {listed(it.resource.split(', '), 'or')} nodes"


def lacking(missing: Mapping[str, int]) -> str:
    """``4 GPUs short``. *missing*: what a domain lacks, by resource; empty if only single nodes lack it."""
    lacks = [amount_in_words(*each) for each in missing.items()]
    return f"{listed(lacks)} short" if lacks else "enough in total, but spread over too many nodes"


_HEADLINES_OF_ONE = {
    Code.NO_ROOM_ON_NODES: "nodes: no room for its pod",
    Code.NO_DOMAIN_FITS: "{where}: no room for its pod",
    Code.NO_EMPTY_NODES: "can never start: its pod fits on no node",
}
_OVER = {Code.QUOTA_FULL, Code.BORROWING_LIMIT, Code.NO_IDLE_TO_BORROW}
