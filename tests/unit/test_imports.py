"""The import contract: the rooms of the house and the one way that their doors open."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamlearn
from streamlearn.cli import COMMANDS

HOUSE = Path(streamlearn.__file__).resolve().parent
GROUND = {"_version", "errors", "record"}
# What a room may import. A room that is not listed may import what it likes; none that is listed
# may import it.
DOORS = {
    "_version": set(),
    "errors": set(),
    "record": set(),
    "engine": {"errors"},
    "sources": GROUND,
    "container": GROUND | {"engine"},
    "arrays": GROUND | {"engine"},
    "catalogue": GROUND | {"engine"},
    "meter": GROUND | {"engine"},
    "model": GROUND | {"engine", "arrays", "catalogue", "container"},
    "multiclass": GROUND | {"engine", "arrays", "catalogue", "container", "model"},
    "ahead": set(),
    "cachefile": GROUND | {"engine"},
    "cache": GROUND | {"cachefile", "engine", "sources"},
    "training": GROUND | {"ahead", "cache", "engine", "arrays", "catalogue", "container", "meter",
                          "model", "multiclass", "sources"},
    "scoring": GROUND | {"engine", "catalogue"},
    "comparison": GROUND | {"engine", "catalogue", "model", "multiclass", "scoring", "sources",
                            "training"},
    "picture": GROUND,
    "ports": set(),
    "wire": GROUND,
    "delta": GROUND | {"container", "engine", "model"},
    "payloads": GROUND | {"arrays"},
    "conversation": GROUND | {"keys", "payloads", "wire"},
    "client": GROUND | {"conversation", "multiclass", "payloads", "ports", "wire"},
    "durability": {"record"},
    "keys": GROUND,
    "daemon": GROUND | {"engine", "catalogue", "container", "delta", "durability", "keys", "model",
                        "multiclass", "training", "wire"},
}
NEVER_IN_FIT = {  # by way of dataclasses, pathlib and shutil: half of the time to start
    "ast", "bz2", "dataclasses", "inspect", "json", "logging", "lzma", "pathlib", "shutil",
    "subprocess", "tokenize", "tomllib", "urllib",
}  # fmt: skip
NEVER_AT_START = ("numpy", "scipy", "sklearn", "matplotlib", "zmq", "pandas")
CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import|c?import\s+([\w.]+))", re.MULTILINE)


def room_of(module):
    """streamlearn.engine.block is in the room engine; other packages are in none."""
    words = module.split(".")
    return words[1] if words[0] == "streamlearn" and len(words) > 1 else None


def imported(path):
    """Every module that a file names in an import, wherever in the file it stands."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return {a or b for a, b in CIMPORT.findall(text)}
    found = set()
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            if node.module == "streamlearn":
                found |= {f"streamlearn.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
    return found


def files_of(room):
    if (HOUSE / room).is_dir():
        return sorted(p for p in (HOUSE / room).rglob("*") if p.suffix in (".py", ".pyx", ".pxd"))
    return [HOUSE / f"{room}.py"]


@pytest.mark.parametrize("room", DOORS)
def test_imports_point_one_way(room):
    files = files_of(room)
    assert files
    for path in files:
        used = {room_of(module) for module in imported(path)} - {None, room}
        assert used <= DOORS[room], f"{path.relative_to(HOUSE)} imports {used - DOORS[room]}"


def test_sources_know_no_engine():
    assert "engine" not in {room_of(m) for path in files_of("sources") for m in imported(path)}


def test_nothing_imports_the_command_line_but_itself():
    for path in sorted(HOUSE.rglob("*.py")):
        if HOUSE / "cli" not in path.parents and path.name != "__main__.py":
            assert "cli" not in {room_of(module) for module in imported(path)}, path


def test_only_the_command_line_reads_configuration_or_prints():
    for path in sorted(HOUSE.rglob("*.py")):
        if HOUSE / "cli" in path.parents:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {n.func.id for n in ast.walk(tree)
                  if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert "print" not in called, path
        assert not read & {"environ", "getenv"}, path
        # keys are no settings
        assert "tomllib" not in imported(path) or path.name == "keys.py", path


def test_nothing_can_run_code_from_a_file():
    for path in sorted(HOUSE.rglob("*.py")):
        names = imported(path)
        assert not names & {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}, path


def loaded_by(tmp_path, *words, stdin=b""):
    """The modules in memory when a command ends, and its exit code."""
    code = (
        "import sys\n"
        "from streamlearn.cli import main\n"
        "try:\n"
        "    code = main(sys.argv[1:])\n"
        "except SystemExit as end:\n"
        "    code = end.code or 0\n"
        "print('\\n'.join(['', 'loaded:', *sys.modules]))\n"
        "sys.exit(code)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMLEARN_")}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(HOUSE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        input=stdin, capture_output=True, cwd=tmp_path, env=environment, timeout=60, check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().partition("\nloaded:\n")[2].split("\n")


def test_fit_loads_little_of_the_standard_library(tmp_path):
    assert NEVER_IN_FIT.isdisjoint(loaded_by(tmp_path, "fit", stdin=b"1 1:1\n-1 2:1\n"))
    (tmp_path / "data.svm").write_bytes(b"1 1:1\n-1 2:1\n")
    for _ in range(2):  # makes the cache, then reads it
        assert NEVER_IN_FIT.isdisjoint(loaded_by(tmp_path, "fit", "--cache", "data.svm"))


def test_help_and_version_load_next_to_nothing(tmp_path):
    """Start-up time matters in a pipe."""
    for word in ("--help", "--version"):
        loaded = loaded_by(tmp_path, word)
        assert [name for name in loaded if name.split(".")[0] in NEVER_AT_START] == []
        assert [name for name in loaded if name.startswith("streamlearn.engine")] == []


@pytest.mark.parametrize(
    "words",
    [("fit", "--help"), ("fit",), ("fit", "--algo", "averagesl"), ("predict", "-m", "m"),
     ("snapshot", "s"), ("inspect", "m"), ("top", "m")],
    ids=" ".join,
)
def test_commands_in_a_pipe_load_no_numpy(tmp_path, words):
    if words[0] != "fit":
        loaded_by(tmp_path, "fit", "-o", "m", "--save-state", "s", stdin=b"1 1:1\n-1 2:1\n")
    loaded = loaded_by(tmp_path, *words, stdin=b"1 1:1\n-1 2:1\n")
    assert [name for name in loaded if name.split(".")[0] in NEVER_AT_START] == []


@pytest.mark.parametrize(
    "words", [("fit", "--multiclass"), ("predict", "-m", "m"), ("inspect", "m"), ("top", "m")],
    ids=" ".join,
)
def test_many_classes_need_no_numpy_in_a_pipe(tmp_path, words):
    loaded_by(tmp_path, "fit", "--multiclass", "-o", "m", stdin=b"1 1:1\n5 2:1\n")
    loaded = loaded_by(tmp_path, *words, stdin=b"1 1:1\n5 2:1\n")
    assert [name for name in loaded if name.split(".")[0] in NEVER_AT_START] == []


def test_a_command_loads_no_other_command(tmp_path):
    loaded = loaded_by(tmp_path, "fit", stdin=b"1 1:1\n")
    others = {f"streamlearn.cli.{name}" for name in COMMANDS if name != "fit"}
    assert others.isdisjoint(loaded)
