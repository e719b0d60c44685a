"""`streamlearn algos`: the list, and one algorithm explained."""

from __future__ import annotations

import pytest

from streamlearn.catalogue import ALGORITHMS, PARAMETERS


def test_the_list_names_every_algorithm(run) -> None:
    shown = run("algos").stdout.decode()
    for entry in ALGORITHMS.values():
        assert f"{entry.name} " in shown
        assert entry.title in shown


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_is_explained_with_all_its_parameters(run, name: str) -> None:
    shown = run("algos", name).stdout.decode()
    for word in ("minimises", "update", "cost", "memory", "losses", "use it", "source"):
        assert f"\n{word}" in shown
    for parameter in ALGORITHMS[name].parameters:
        assert f"  {PARAMETERS[parameter].flag} " in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_a_misspelt_name_is_met_with_the_nearest(run) -> None:
    assert "'fobos'" in run("algos", "fobbos", code=64).stderr
