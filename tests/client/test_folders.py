"""Where a user's files lie."""

import os
import sys
from pathlib import Path

import pytest

from runrig.client import saved
from runrig.client.folders import data_folder, settings_folder
from runrig.client.server_address import ServerAddress


@pytest.mark.parametrize(
    ("platform", "environment", "settings", "data"),
    [
        ("linux", {}, ".config/runrig", ".local/share/runrig"),
        ("linux", {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"}, "/c/runrig", "/d/runrig"),
        ("linux", {"XDG_CONFIG_HOME": "c", "XDG_DATA_HOME": ""}, ".config/runrig", ".local/share/runrig"),
        ("darwin", {}, *["Library/Application Support/runrig"] * 2),
        ("darwin", {"XDG_CONFIG_HOME": "/c"}, "/c/runrig", "Library/Application Support/runrig"),
        ("win32", {"LOCALAPPDATA": "/local"}, *["/local/runrig"] * 2),
        ("win32", {}, *["AppData/Local/runrig"] * 2),
    ],
)
def test_files_are_where_the_system_keeps_them(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], settings: str, data: str
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(sys, "platform", platform)
    home = Path("/home/ann")
    assert (settings_folder(), data_folder()) == (home / settings, home / data)


def test_user_without_a_home_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 9)
    assert not data_folder().exists()
    assert saved.read() == saved.Logins()
    assert str(ServerAddress(data="~nobody-here/d").data_folder()) == "~nobody-here/d"
