"""What all tests share: where the project is, and where real data may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need it skip without."""
    folder = Path(os.environ.get("DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: set DATA to a folder with a9a.train.svm.gz and the like")
    return folder
