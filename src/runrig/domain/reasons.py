"""Why a gang waits: the law that blocks it, where, and the numbers.  A Reason prints as a sentence."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from runrig.domain.quantities import GPU, amount_in_a_sentence, amount_in_words
from runrig.domain.value import NO_AMOUNTS, Amounts, Shown, Word, at, shown_as, utc


class Code(Word):
    """The kinds of reasons.  They are few, so that they can be metric labels; each belongs to a law."""

    HELD = "OnHold"
    SET_ASIDE = "SetAside"
    UPSTREAM = "WaitsForUpstream"
    QUOTA_FULL = "QuotaFull"
    BORROWING_LIMIT = "BorrowingLimit"
    NO_IDLE_TO_BORROW = "NoIdleToBorrow"
    COHORT_CYCLE = "CohortCycle"
    EXCEEDS_POTENTIAL = "ExceedsPotential"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    MISCONFIGURED = "Misconfigured"
    REQUESTS_NOTHING = "RequestsNothing"
    NO_ROOM_ON_NODES = "NoRoomOnNodes"
    NO_DOMAIN_FITS = "NoDomainFits"
    NOT_ALL_GROUPS_FIT = "NotAllGroupsFit"
    KEYS_CHANGED = "TopologyKeysChanged"
    PLACEMENT_NOT_PROVEN = "PlacementNotProven"
    BEHIND_HEAD = "BehindHeadOfQueue"
    KAI_NOT_PLACED = "KaiNotPlaced"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    WAITS_FOR_TARGETS = "WaitsForTargets"
    NO_TARGETS = "NoTargets"
    WOULD_BORROW = "WouldBorrow"
    NO_EMPTY_NODES = "NoEmptyNodes"
    NOT_CONSIDERED = "NotConsideredYet"


@dataclass(frozen=True, slots=True)
class DomainRoom(Shown):
    """A domain that comes close: *have* pods would fit; *missing*, by resource, is what it lacks in sum, empty where it is scattered.

    *closed*: how many of its nodes take no pods, because they are not ready or tainted.  *spoken*: of what is missing, what is held
    there for gangs that have a place and wait for others to stop.
    """

    domain: tuple[str, ...]
    have: int
    missing: Amounts = NO_AMOUNTS
    closed: int = 0
    spoken: Amounts = NO_AMOUNTS

    def __str__(self) -> str:
        lacks = " and ".join(amount_in_words(*each) for each in self.missing.items())
        return f"{'/'.join(self.domain)} ({self.have} {'pod' if self.have == 1 else 'pods'}, {f'{lacks} short' if lacks else 'scattered'})"


shown_as(DomainRoom(("zone-a", "rack-3"), 6, Amounts({"gpu": 16}), closed=2, spoken=Amounts({"gpu": 8})))


class Part(Word):
    """The part that a pool or cohort plays in a reason.

    HOLDS: so much of what is short.  KEEPS: so much of it idle, by its lending limit.  DRAINS: DELETING, and still holds so much.
    SAFE: so much of it is held by LOW work that nobody may stop (law R2).
    """

    HOLDS = "holds"
    KEEPS = "keeps"
    DRAINS = "drains"
    SAFE = "safe"


@dataclass(frozen=True, slots=True)
class Concerned(Shown):
    """A pool or cohort that has to do with a reason, *amount* of its resource.

    *part*: `holds` it; `keeps` it idle by its lending limit; `drains`, being DELETING; or `safe`: held by LOW work that nobody may stop.
    *name* null: pools that you do not see, added up.
    """

    part: Part
    name: str | None
    amount: int


shown_as(Concerned(Part.HOLDS, "vision", 4))


class Share(enum.Enum):
    """The quota of *where* that a QUOTA_FULL is about.

    ALL: its quota, where it has no subpools.  OWN: what it does not give to its subpools.  SUBTREE: its quota, which its own work and
    that of its subpools use together.
    """

    ALL = "{where} has {have} of its quota of {resource} left", "{where} is {over} over its quota of {resource}"
    OWN = (
        "{where} without its subpools has {have} of its own share of {resource} left",
        "{where} without its subpools is {over} over its own share of {resource}",
    )
    SUBTREE = (
        "{where} with its subpools has {have} of its quota of {resource} left",
        "{where} with its subpools is {over} over its quota of {resource}",
    )


@dataclass(frozen=True, slots=True)
class Older:
    """The *gangs* of *pool* that started while it had more quota than now, and hold more than it has now until they end.

    *gave*: the pool has subpools, to which it gave the rest; else its quota was cut.
    """

    pool: str
    gangs: tuple[str, ...]
    gave: bool

    def __str__(self) -> str:
        then = "before its subpools had that quota" if self.gave else "before its quota was cut"
        if len(self.gangs) == 1:
            (gang,) = self.gangs
            return f"{gang} started in {self.pool} {then}, and keeps what it holds until it ends: it starts when {gang} ends"
        gangs = f"{', '.join(self.gangs[:-1])} and {self.gangs[-1]}"
        return f"{gangs} started in {self.pool} {then}, and keep what they hold until they end: it starts when enough of them end"


@dataclass(frozen=True, slots=True)
class Reason(Shown):
    """Why a group waits.  *have* and *need* are amounts of *resource* at *where*; *sentence* says the same in words.

    *domains*: the best of the level, where no domain has enough.  *shared*: cohort → what it promises beyond *own*, the pool's quota.
    *gangs*: how many hold *have*, where the reason is who could be preempted; else 0.
    """

    UNTOLD = ("at_least", "since", "share", "older")

    code: Code
    law: str
    where: str = ""
    """Who holds the workflow, of HELD and SET_ASIDE."""
    resource: str = ""
    """``flavor/resource``."""
    have: int = 0
    need: int = 0
    holders: tuple[str, ...] = ()
    """Gang ids."""
    domains: tuple[DomainRoom, ...] = ()
    own: int = 0
    shared: Amounts = NO_AMOUNTS
    """Of QUOTA_FULL (law P2)."""
    concerned: tuple[Concerned, ...] = ()
    """The largest of each part first."""
    gangs: int = 0
    sentence: str = ""
    """`str` of the reason as the asker may see it; empty until names are hidden (`service.queries.redaction`)."""
    at_least: bool = False
    """*need* is that of the smallest gang that is accepted, which has fewer pods than requested (law A1)."""
    since: float | None = None
    """Of HELD and SET_ASIDE, in seconds since the epoch; None: of several workflows."""
    share: Share = Share.ALL
    """Of QUOTA_FULL."""
    older: tuple[Older, ...] = ()
    """Of QUOTA_FULL."""

    def __str__(self) -> str:
        if self.have < 0 and self.code in _OVER:
            sentence = _SHARED_OVER if self.shared else _OVER[self.code]
        else:
            sentence = _SHARED if self.shared else _SENTENCES[self.code]
        if self.code is Code.NO_TARGETS and not self.gangs:
            sentence = "nothing that may be stopped for it holds any {resource}"
        if self.code is Code.QUOTA_FULL and not self.shared:
            sentence = self.share.value[self.have < 0] + _AND_IT_ASKS
        if self.code is Code.QUOTA_FULL and not {each for older in self.older for each in older.gangs}.issuperset(
            self.holders
        ):
            sentence += "; held by {holders}"
        if self.older:
            sentence += "; {older}"
        if self.domains:
            sentence += ". The best: {domains}"
        return sentence.format(
            where=self.where,
            resource=self.resource,
            have=self._shown(self.have),
            over=self._shown(-self.have),
            need=self._shown(self.need),
            holders=", ".join(self.holders) or "nobody",
            older="; ".join(map(str, self.older)),
            domains=", ".join(map(str, self.domains)),
            promised=self._shown(self.own + sum(self.shared.values())),
            gangs=f"{self.gangs} {'gang' if self.gangs == 1 else 'gangs'}",
            since=_since(self.since),
            parts=own_and_shared(self.own, self.shared, self.resource),
            **(_OF_THE_SMALLEST if self.at_least else _OF_THE_WHOLE),
        )

    @property
    def headline(self) -> str:
        """The same in a few words, for a list.  Empty for reasons of imported queues."""
        kind = self.resource.partition("/")[2]
        there = _HEADLINES.get(self.code, "")
        return (_HEADLINES_OVER.get(self.code, there) if self.have < 0 else there).format(
            where=self.where,
            have=self._shown(self.have),
            over=self._shown(-self.have),
            need=f"{self._shown(self.need)}{'' if kind in ('', GPU) else f' {kind}'}",
            platform=self.resource,
            holders=f"{self.holders[0]} and {len(self.holders) - 1} more"
            if len(self.holders) > 1
            else "".join(self.holders) or "others",
        )

    def _shown(self, amount: int) -> str:
        """*amount* in the unit of the resource, as people write it."""
        return amount_in_a_sentence(self.resource.partition("/")[2], amount)


shown_as(
    Reason(
        Code.QUOTA_FULL,
        "P2",
        "vision",
        "default/gpu",
        have=2,
        need=4,
        holders=("train-1",),
        sentence="vision has 2 of its quota of default/gpu left, and it asks for 4; held by train-1",
    )
)


def _since(seconds: float | None) -> str:
    return "" if seconds is None else f" since {utc(at(seconds))}"


def own_and_shared(own: int, shared: Mapping[str, int], key: str, kind: str = "of its own") -> str:
    """``2 of its own, 4 shared by research``; *key*: ``flavor/resource``; *kind*: what the pool's own amount is called."""
    resource = key.partition("/")[2]
    parts = [f"{amount_in_a_sentence(resource, amount)} shared by {cohort}" for cohort, amount in shared.items()]
    return ", ".join((f"{amount_in_a_sentence(resource, own)} {kind}", *parts))


_SHARED = "{where} has {have} left of the {promised} of {resource} that it was promised ({parts}), and it {asks} {need}"

_SHARED_OVER = (
    "{where} is {over} over the {promised} of {resource} that it was promised ({parts}), and it {asks} {need}"
)
_AND_IT_ASKS = ", and it {asks} {need}"

_OF_THE_WHOLE = {"asks": "asks for", "pods": "all pods", "all": "all"}
_OF_THE_SMALLEST = {"asks": "needs at least", "pods": "as few pods as it accepts", "all": "even"}

_SENTENCES = {
    Code.HELD: "it is held by {where}{since}",
    Code.SET_ASIDE: "it is set aside{since}, because the server failed at it: `runrig workflow release {where}` tries it again, "
    "`runrig workflow cancel {where}` ends it",
    Code.UPSTREAM: "{holders} must complete first",
    Code.QUOTA_FULL: Share.ALL.value[0] + _AND_IT_ASKS,
    Code.BORROWING_LIMIT: "{where} may use {have} more of {resource} before its borrowing limit, and it {asks} {need}",
    Code.NO_IDLE_TO_BORROW: "{where} has {have} of {resource} idle, and it {asks} {need}",
    Code.COHORT_CYCLE: "the parents of {where} run in a circle: nothing new starts in that tree until one of them is changed",
    Code.EXCEEDS_POTENTIAL: "{where} can never have more than {have} of {resource}, and it {asks} {need}",
    Code.NO_MATCHING_FLAVOR: "its pods cannot take {resource} in {where}",
    Code.MISCONFIGURED: "{where} does not take it as it is: see the warnings, and the namespaces that the queue selects",
    Code.REQUESTS_NOTHING: "pod set {resource} needs a place on nodes and requests no resource of {where}: add a request, such as cpu",
    Code.NO_ROOM_ON_NODES: "no nodes have room for {pods} at once: {have} of {need} pods would fit",
    Code.NO_DOMAIN_FITS: "no {where} has room for {all} {need} pods at once: {have} would fit",
    Code.NOT_ALL_GROUPS_FIT: "each of its groups would find a {where}, but not all of them at once",
    Code.KEYS_CHANGED: "the topology keys of {where} were removed or reordered after submission",
    Code.PLACEMENT_NOT_PROVEN: "no place was found for {all} {need} pods within the search budget",
    Code.BEHIND_HEAD: "{holders} is before it, and nothing passes the head of a STRICT_FIFO queue",
    Code.KAI_NOT_PLACED: "the cluster's scheduler did not take it: {where}; it waits until its pool or a node that it could use changes, "
    "at most an hour",
    Code.STOPPED: "{where} is stopped, or the workload itself: nothing starts until it is resumed",
    Code.FLAVOR_NOT_FOUND: "{where} names the flavor {resource}, which is not defined: nothing starts there until it is",
    Code.WAITS_FOR_TARGETS: "it has a place, and {holders} must stop first",
    Code.NO_TARGETS: "stopping all that it may, {gangs} with {have} of {resource}, does not make room for {need}",
    Code.WOULD_BORROW: "{where} would have to borrow {need} of {resource}, so it takes back nothing that it lent "
    "(borrowWithinCohort is Never)",
    Code.NO_EMPTY_NODES: "the nodes that {where} has could not hold it even if they were empty: {have} of {need} pods would fit",
    Code.NOT_CONSIDERED: "it is queued, and has not been looked at yet",
}

_OVER = {
    Code.QUOTA_FULL: Share.ALL.value[1] + _AND_IT_ASKS,
    Code.BORROWING_LIMIT: "{where} is {over} over its borrowing limit of {resource}, and it {asks} {need}",
    Code.NO_IDLE_TO_BORROW: "{where} is {over} over its quota of {resource}, and it {asks} {need}",
}
"""Where *have* is negative: a quota or limit was cut, or a node went, below what is held."""

_HEADLINES = {
    Code.HELD: "held by {where}",
    Code.SET_ASIDE: "set aside: the server failed at it",
    Code.UPSTREAM: "after {holders}",
    Code.QUOTA_FULL: "quota: {where} has {have} left, needs {need}",
    Code.BORROWING_LIMIT: "borrowing limit: {where} has {have} left, needs {need}",
    Code.NO_IDLE_TO_BORROW: "idle quota: {where} has {have}, needs {need}",
    Code.COHORT_CYCLE: "cohorts in a circle: {where}",
    Code.EXCEEDS_POTENTIAL: "never: {where} has {have} at most, needs {need}",
    Code.NO_MATCHING_FLAVOR: "never: {where} has no {platform}",
    Code.REQUESTS_NOTHING: "never: {where} gives no nodes to pods that request nothing",
    Code.NO_ROOM_ON_NODES: "nodes: {have} of {need} pods fit",
    Code.NO_DOMAIN_FITS: "{where}: {have} of {need} pods fit in one",
    Code.NOT_ALL_GROUPS_FIT: "{where}: not all groups fit at once",
    Code.KEYS_CHANGED: "topology keys of {where} changed",
    Code.PLACEMENT_NOT_PROVEN: "no place found within the search budget",
    Code.BEHIND_HEAD: "behind {holders}",
    Code.KAI_NOT_PLACED: "not taken by the cluster's scheduler",
    Code.WAITS_FOR_TARGETS: "for {holders} to stop",
    Code.NO_TARGETS: "nobody to preempt",
    Code.WOULD_BORROW: "{where} would borrow {need}, so it takes nothing back",
    Code.NO_EMPTY_NODES: "never: empty nodes fit {have} of {need} pods",
    Code.NOT_CONSIDERED: "not looked at yet",
}

_HEADLINES_OVER = {
    Code.QUOTA_FULL: "quota: {where} is {over} over, needs {need}",
    Code.BORROWING_LIMIT: "borrowing limit: {where} is {over} over, needs {need}",
    Code.NO_IDLE_TO_BORROW: "idle quota: {where} is {over} over, needs {need}",
}
