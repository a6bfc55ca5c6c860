"""Requests and responses of API v1, each with an example for the OpenAPI document."""

from runrig.wire.v1.access import *
from runrig.wire.v1.nodes import *
from runrig.wire.v1.plans import *
from runrig.wire.v1.pools import *
from runrig.wire.v1.problems import *
from runrig.wire.v1.sessions import *
from runrig.wire.v1.sign_in import *
from runrig.wire.v1.workflows import *
