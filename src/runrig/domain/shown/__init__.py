"""The values in API responses. The rest of `domain` does not depend on them."""

from runrig.domain.blockers import Blocker, QuotaLeft
from runrig.domain.gpu_use import GpuUse
from runrig.domain.limits import LimitValues
from runrig.domain.nodes import Flavor, Taint
from runrig.domain.pools import Quota, TopologyKey
from runrig.domain.reasons import Concerned, DomainRoom, Reason
from runrig.domain.shown.access import *
from runrig.domain.shown.changes import *
from runrig.domain.shown.declared import *
from runrig.domain.shown.dry_run import *
from runrig.domain.shown.events import *
from runrig.domain.shown.gpu_use import *
from runrig.domain.shown.history import *
from runrig.domain.shown.limits import *
from runrig.domain.shown.nodes import *
from runrig.domain.shown.notices import *
from runrig.domain.shown.plans import *
from runrig.domain.shown.pools import *
from runrig.domain.shown.server import *
from runrig.domain.shown.topology import *
from runrig.domain.shown.usage import *
from runrig.domain.shown.why import *
from runrig.domain.shown.workflows import *
from runrig.domain.trail import AccessEvent, AccessEventPage
