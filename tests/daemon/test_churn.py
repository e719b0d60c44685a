"""tools/churn and tools/soak, short ones: clients come and go, and the daemon stays as it was."""

from __future__ import annotations

import re
import subprocess
import sys

from daemon.conftest import PATIENCE, environment, unsurprised


def churn(root, code, *flags):
    result = subprocess.run(
        [sys.executable, root / "tools" / "churn.py", "--clients", "20", "--rounds", "5", *flags],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    unsurprised(result.stderr)
    assert result.returncode == code, result.stderr
    return result


def test_clients_come_and_go_and_leave_nothing_behind(root):
    (line,) = churn(root, 0).stdout.splitlines()
    assert re.match(r"100 clients in [\d.]+ s: 2,000 examples, .* 0 violations$", line)


def test_churn_tells_of_growth(root):
    assert "memory grew by" in churn(root, 1, "--allow", "-999").stderr


def test_a_daemon_left_alone_with_work_learns_every_row_once_across_restarts(root):
    result = subprocess.run(
        [sys.executable, root / "tools" / "soak.py", "--minutes", "0.1", "--restarts", "2"],
        env=environment(), capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert re.match(r"soak: \d+ s, 3 lives: [\d,]+ rows learned, .* 0 violations$", result.stdout)
