"""Bodies of the osmo API as its document has them. `runrig.osmo` makes the answers about pools, nodes and workflows."""

from runrig.api.osmo.models.access import *
from runrig.api.osmo.models.configs import *
from runrig.api.osmo.models.pools import *
from runrig.api.osmo.models.resources import *
from runrig.api.osmo.models.subpools import *
from runrig.api.osmo.models.tasks import *
from runrig.api.osmo.models.workflows import *
