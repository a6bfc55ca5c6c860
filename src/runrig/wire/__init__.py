"""Requests and responses over HTTP, each with an example for the OpenAPI document."""

from runrig.wire.base import *
from runrig.wire.meta import *
