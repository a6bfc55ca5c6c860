"""Bodies of the osmo API as its document has them. `runrig.osmo` makes the answers."""

from runrig.api.osmo.models.pools import *
from runrig.api.osmo.models.resources import *
from runrig.api.osmo.models.subpools import *
from runrig.api.osmo.models.workflows import *
