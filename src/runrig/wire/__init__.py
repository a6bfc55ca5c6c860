"""Requests and responses over HTTP, each with an example for the OpenAPI document."""

from runrig.wire.access import *
from runrig.wire.accounts import *
from runrig.wire.base import *
from runrig.wire.configs import *
from runrig.wire.credentials import *
from runrig.wire.meta import *
from runrig.wire.pools import *
from runrig.wire.sessions import *
from runrig.wire.tasks import *
from runrig.wire.workflows import *
