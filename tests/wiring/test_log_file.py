"""The log file of a server does not grow for ever."""

import logging
from pathlib import Path
from unittest.mock import patch

from runrig.wiring import process


def test_the_log_is_rotated_and_only_the_last_files_are_kept(tmp_path: Path) -> None:
    with (
        patch.object(process, "LOG_BYTES", 1000),
        patch.object(process, "LOGS_KEPT", 2),
        process.logging_to(tmp_path / "server.log"),
    ):
        for number in range(9 * process.LogFile.LINES + 1):
            logging.getLogger("runrig").warning("event=test number=%s", number)
    files = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert set(files) == {"server.log", "server.log.1", "server.log.2"}
    assert all(text.count("\n") <= process.LogFile.LINES for text in files.values())
    assert files["server.log"].endswith(f"number={9 * process.LogFile.LINES}\n")
