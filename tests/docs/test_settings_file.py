"""conf/: the settings file explains every setting with its true default; the papers' files load."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from streamlearn.catalogue import PARAMETERS, resolve
from streamlearn.cli.settings import FIT, from_file

# These have no default; the file shows an example.
EXAMPLES = {"labels", "max_errors", "max_nonzeros"}


@pytest.fixture(scope="module")
def shown(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The settings file with every setting uncommented."""
    text = (root / "conf" / "streamlearn.toml").read_text(encoding="utf-8")
    place = tmp_path_factory.mktemp("conf") / "all.toml"
    place.write_text(re.sub(r"^# (?=[a-z0-9_]+ = )", "", text, flags=re.MULTILINE))
    return place


def test_file_names_every_setting_once(shown: Path) -> None:
    assert set(tomllib.loads(shown.read_text())) == set(FIT)


def test_defaults_in_the_file_are_the_defaults_in_force(shown: Path) -> None:
    for name, value in from_file(str(shown), FIT).items():
        if name in EXAMPLES:
            continue
        default = PARAMETERS[name].default if name in PARAMETERS else FIT[name].default
        assert value == default, name


def test_file_as_shipped_changes_nothing(root: Path) -> None:
    assert from_file(str(root / "conf" / "streamlearn.toml"), FIT) == {}


def test_papers_settings_resolve(root: Path) -> None:
    files = sorted((root / "conf" / "paper").glob("*.toml"))
    assert files
    for path in files:
        given = from_file(str(path), FIT)
        parameters = {k: v for k, v in given.items() if k in PARAMETERS}
        settings = resolve(given["algo"], given["loss"], parameters)
        assert settings["t0"] == 0.0, path.name
