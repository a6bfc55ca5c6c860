"""The values in API responses. The rest of `domain` does not depend on them."""

from runrig.domain.blockers import Blocker, QuotaLeft
from runrig.domain.gpu_use import GpuUse
from runrig.domain.limits import LimitValues
from runrig.domain.nodes import Flavor, Taint
from runrig.domain.pools import Quota, TopologyKey
from runrig.domain.reasons import Concerned, DomainRoom, Reason
from runrig.domain.shown.access import (
    Credential,
    CredentialPage,
    Me,
    MyToken,
    Resealed,
    Role,
    RolePage,
    Token,
    TokenMade,
    TokenPage,
    User,
    UserPage,
)
from runrig.domain.shown.changes import ForeseenEffect, ForeseenStart, TriedDial, WorkflowChanges, WouldStart
from runrig.domain.shown.declared import DeclaredChange
from runrig.domain.shown.dry_run import GroupDryRun, WorkflowDryRun
from runrig.domain.shown.events import ClusterEvent, ClusterEventPage, RuledOut, WorkflowEvent, WorkflowEventPage
from runrig.domain.shown.gpu_use import TaskGpuUse, WorkflowGpuUse
from runrig.domain.shown.history import PoolChange, PoolChangePage, PoolFieldEdit, PoolPast, PoolThen
from runrig.domain.shown.limits import Limit, LimitPage, LimitsChange
from runrig.domain.shown.nodes import FlavorPage, GpuHolder, Node, NodePage, NodesDrained, NodesMarked
from runrig.domain.shown.notices import NoticeSettings, NoticeTest
from runrig.domain.shown.plans import (
    Plan,
    PlanDrain,
    PlanExposed,
    PlanGang,
    PlanLoss,
    PlanNever,
    PlanPool,
    PlanPoolRow,
    PlanPreempted,
    PlanStart,
    PlanUnseen,
)
from runrig.domain.shown.pools import (
    Balance,
    Cohort,
    CohortPage,
    NodeShare,
    Pool,
    PoolDeleted,
    PoolGpus,
    PoolPage,
    PoolPaused,
    QuotaTree,
)
from runrig.domain.shown.server import (
    BrowserCode,
    ClockAccepted,
    ClusterFile,
    DeviceStarted,
    LogRecord,
    Session,
    SignedIn,
    SignInOffer,
    Version,
)
from runrig.domain.shown.topology import (
    DomainGpus,
    DomainReport,
    GangSize,
    GangsThatFit,
    Holder,
    LevelReport,
    Others,
    TopologyAnswer,
    TopologyMap,
    UnlabelledNode,
)
from runrig.domain.shown.usage import Usage, UsageRow
from runrig.domain.shown.why import (
    GroupWhy,
    PoolEnding,
    PoolWhy,
    Preemption,
    Standstill,
    WaitingAlike,
    WorkflowCause,
    WorkflowWhy,
)
from runrig.domain.shown.workflows import (
    PodCount,
    TaskAttempt,
    TaskGroup,
    Workflow,
    WorkflowEntry,
    WorkflowHeadline,
    WorkflowPage,
    WorkflowSubmitted,
    WorkflowTimes,
)
from runrig.domain.trail import AccessEvent, AccessEventPage
