"""Requests and responses of API v1, each with an example for the OpenAPI document."""

from runrig.wire.v1.access import MeEdit, TokenCreateRequest, TokenEdit
from runrig.wire.v1.base import Page, Shown, at
from runrig.wire.v1.credentials import CredentialRequest
from runrig.wire.v1.limits import LimitsEdit
from runrig.wire.v1.nodes import (
    NodeNames,
    NodesDrain,
)
from runrig.wire.v1.notices import NoticesRequest
from runrig.wire.v1.plans import PlanRequest
from runrig.wire.v1.pools import (
    CohortCreate,
    CohortEdit,
    PoolClose,
    PoolCreate,
    PoolEdit,
    PoolPause,
)
from runrig.wire.v1.problems import ProblemDetails, ProblemPart
from runrig.wire.v1.sessions import ExecStart, PortForwardStart, Terminal
from runrig.wire.v1.sign_in import SignInByCode, SignInByDevice, SignInRenewal
from runrig.wire.v1.workflows import (
    PriorityName,
    WorkflowArrayChanged,
    WorkflowArrayEdit,
    WorkflowBatch,
    WorkflowCancel,
    WorkflowCancelled,
    WorkflowCheck,
    WorkflowChecked,
    WorkflowFile,
    WorkflowNamed,
    WorkflowOutcome,
    WorkflowOutcomes,
    WorkflowReassign,
    WorkflowReassigned,
    WorkflowRender,
    WorkflowRepeat,
    WorkflowSubmit,
    WorkflowTagEdit,
    WorkflowTags,
)
