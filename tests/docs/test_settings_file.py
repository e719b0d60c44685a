"""conf/: the settings file explains every setting with its true default; the papers' files load."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from streamlearn.catalogue import PARAMETERS, resolve
from streamlearn.cli.learning import DAEMON, FIT, SERVE
from streamlearn.cli.settings import from_file

# These have no default; the file shows an example.
EXAMPLES = {"cache_dir", "labels", "max_errors", "max_nonzeros"}


def uncommented(path: Path, folder: Path) -> Path:
    """A settings file with every setting uncommented."""
    text = path.read_text(encoding="utf-8")
    place = folder / path.name
    place.write_text(re.sub(r"^# (?=[a-z0-9_]+ = )", "", text, flags=re.MULTILINE))
    return place


@pytest.fixture
def shown(root: Path, tmp_path: Path) -> Path:
    return uncommented(root / "conf" / "streamlearn.toml", tmp_path)


def test_the_daemons_file_names_its_settings_with_their_defaults(
    root: Path, tmp_path: Path
) -> None:
    path = root / "conf" / "serve.toml"
    assert from_file(str(path), SERVE) == {}
    held = tomllib.loads(uncommented(path, tmp_path).read_text())
    assert set(held) == {setting.name for setting in DAEMON}
    for name, value in held.items():
        setting = SERVE[name]
        setting.read(str(value).lower() if setting.switch else value)
        if name in ("state", "keys"):
            assert setting.default is None
        elif name.startswith("bind"):
            assert setting.default.startswith(value)
        else:
            assert value == setting.default, name


def test_file_names_every_setting_once(shown: Path) -> None:
    assert set(tomllib.loads(shown.read_text())) == set(FIT)


def test_defaults_in_the_file_are_the_defaults_in_force(shown: Path) -> None:
    for name, value in from_file(str(shown), FIT).items():
        if name in EXAMPLES:
            continue
        default = PARAMETERS[name].default if name in PARAMETERS else FIT[name].default
        if name == "threads":
            default = FIT[name].read(default)
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
        if path.name.startswith(("aaai", "tpami5")) and given.get("weights") == "suffix":
            assert settings["t0"] == 0.0, path.name
