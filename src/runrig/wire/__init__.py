"""Requests and responses over HTTP, each with an example for the OpenAPI document."""

from runrig.wire.access import (
    DeviceAnswer,
    ExchangeAnswer,
    ExchangeRequest,
    LoginAnswer,
    OAuthTokenAnswer,
    ProfileAnswer,
    ProfileRequest,
    RoleGrantRequest,
    UserCreateRequest,
    UserEditRequest,
)
from runrig.wire.accounts import (
    AccessTokenAnswer,
    AccessTokenRolesAnswer,
    AccountAnswer,
    AccountCreateRequest,
    AccountsAnswer,
    AccountWithRolesAnswer,
    AssignedRoleAnswer,
    RoleAssignmentAnswer,
    RoleAssignRequest,
)
from runrig.wire.base import utc
from runrig.wire.configs import (
    BackendAnswer,
    BackendsAnswer,
    ConfigDiffAnswer,
    ConfigHistoryAnswer,
    ConfigRevision,
    ConfigRollbackAnswer,
    ConfigRollbackRequest,
    ConfigTagRequest,
    ConfigTagsAnswer,
    RoleConfigAnswer,
    RolePolicyAnswer,
    ServiceConfigAnswer,
    WorkflowConfigAnswer,
)
from runrig.wire.credentials import (
    CredentialAnswer,
    CredentialsAnswer,
    CredentialSetRequest,
    GenericCredential,
)
from runrig.wire.meta import (
    ApplyAnswer,
    ApplyRequest,
    ErrorAnswer,
    HealthAnswer,
    VersionAnswer,
)
from runrig.wire.pools import (
    CohortEditRequest,
    CountableAnswer,
    NodeSetAnswer,
    PlatformAnswer,
    PoolAnswer,
    PoolEditRequest,
    PoolPatchRequest,
    PoolQuotaAnswer,
    PoolResourcesAnswer,
    PoolsAnswer,
    PoolSettingsAnswer,
    PoolsPutRequest,
    ResourceUsageAnswer,
    SaidRequest,
)
from runrig.wire.render import RenderAnswer
from runrig.wire.resources import GpuAnswer, ResourceAnswer, ResourcesAnswer
from runrig.wire.sessions import (
    PluginConfigsAnswer,
    RouterAnswer,
    RsyncAnswer,
    RsyncPathAnswer,
)
from runrig.wire.subpools import (
    SubpoolAnswer,
    SubpoolCreateRequest,
    SubpoolDeletedAnswer,
    SubpoolEditRequest,
    SubpoolsAnswer,
)
from runrig.wire.tasks import TaskEntry, TaskListAnswer, TaskSumEntry, TaskSumsAnswer
from runrig.wire.workflows import (
    AppsAnswer,
    CancelAnswer,
    GroupAnswer,
    ListAnswer,
    ListEntry,
    PluginsAnswer,
    SubmitAnswer,
    SubmitRequest,
    TagsAnswer,
    TaskAnswer,
    WorkflowAnswer,
)
