"""Pages of these tests wait for their reasons, however slow the machine is."""

import pytest

from runrig.web import waiting


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "FIRST_S", 30.0)
    monkeypatch.setattr(waiting, "WAIT_S", 30.0)
