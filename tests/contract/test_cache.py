"""With a cache or without one: the same state and the same model, bit for bit.

For every algorithm with every loss; over the ways to write labels, unit rows, bounded features,
threads and passes.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from contract.streams import settings_for
from streamlearn.cache import CachedFile, Caches
from streamlearn.cachefile import Kept
from streamlearn.catalogue import ALGORITHMS, LOSSES, STREAMING, resolve
from streamlearn.comparison import Comparison, TestSet, line_up
from streamlearn.sources import open_source
from streamlearn.training import BadLines, Training

PAIRS = [
    pytest.param(algo, loss, id=f"{algo}-{loss}")
    for algo, entry in ALGORITHMS.items()
    for loss, about in LOSSES.items()
    if (about.classifies or not entry.classifies_only)
    and (entry.losses is None or loss in entry.losses)
]
WAYS: list[dict[str, Any]] = [
    {"form": "signs", "threads": 1, "passes": 2},
    {"form": "bits", "threads": 2, "passes": 2, "normalize": "l2"},
    {"form": "named", "threads": 2, "passes": 1, "max_features": 30},
    {"form": "classes", "threads": 2, "passes": 2, "normalize": "l2"},
    {"form": "classes", "threads": 1, "passes": 1, "max_features": 30},
]
FORMS: dict[str, tuple[str, ...]] = {
    "signs": ("-1", "+1"), "bits": ("0", "1"), "named": ("2", "3"), "classes": ("0", "7", "-3")
}


def written(path: Path, form: str, rows: int = 700) -> str:
    """Rows with long comments, so that few of them make many blocks."""
    random = Random(form)
    lines = []
    for i in range(rows):
        ids = random.sample(range(60), 6)  # not rising
        margin = sum(1.0 if k % 3 else -1.0 for k in ids) + random.gauss(0, 1)
        labels = FORMS.get(form)
        label = f"{margin:.3f}" if labels is None else labels[
            (margin > 0) + (len(labels) > 2 and margin > 2)]
        weight = ":0.5" if i % 5 == 0 else ""
        items = " ".join(f"{k * 2**40 if k == 59 else k}:{random.gauss(0, 1):.4g}" for k in ids)
        lines.append(f"{label}{weight} {items} # {'-' * 1000}\n" + "\n" * (i % 90 == 0))
    path.write_text("".join(lines))
    return str(path)


def learned(
    algo: str, loss: str, path: str, caches: Caches | None, form: str, threads: int,
    passes: int, normalize: str = "none", max_features: int = 0,
) -> tuple[bytes, bytes, list[str]]:
    """State, model, and what the files of each pass were read from."""
    given: dict[str, Any] = {"iterations": 20}
    if algo in STREAMING:
        given = {**settings_for(algo, loss, {}), "max_features": max_features}
    training = Training(
        resolve(algo, loss, given),
        (2.0, 3.0) if form == "named" else None,
        normalize,
        multiclass=form == "classes",
    )
    sources = [open_source(path) if caches is None else caches.open(path) for _ in range(passes)]
    for _ in training.run(sources, BadLines(), threads):
        pass
    parts = [type(s.part).__name__ for s in sources if isinstance(s, CachedFile)]
    return training.to_bytes(), training.model().to_bytes(), parts


@pytest.mark.parametrize(("algo", "loss"), PAIRS)
def test_a_cache_changes_no_bit(tmp_path, algo, loss):
    ways: Sequence[dict[str, Any]] = WAYS
    if not LOSSES[loss].classifies:
        ways = [{**way, "form": "numbers"} for way in WAYS[:3]]
    for number, way in enumerate(ways):
        path = written(tmp_path / f"{number}.svm", way["form"])
        plain = learned(algo, loss, path, None, **way)
        caches = Caches(None, pytest.fail)
        first = learned(algo, loss, path, caches, **way)
        again = learned(algo, loss, path, caches, **way)
        assert plain[:2] == first[:2] == again[:2], way
        assert first[2] == ["Made", "Kept"][: way["passes"]]
        assert again[2] == ["Kept"] * way["passes"]


def test_one_cache_serves_every_way_to_read_labels(tmp_path):
    path = written(tmp_path / "data.svm", "bits")
    caches = Caches(None, pytest.fail)
    for loss, form in (("logistic", "bits"), ("squared", "numbers"), ("hinge", "classes")):
        way = {"form": form, "threads": 1, "passes": 1}
        plain = learned("averagesl", loss, path, None, **way)
        cached = learned("averagesl", loss, path, caches, **way)
        assert cached[:2] == plain[:2]
        assert cached[2] == ["Made" if loss == "logistic" else "Kept"]


def test_comparisons_take_caches(tmp_path):
    path = written(tmp_path / "data.svm", "signs")
    entrants = line_up(["averagesl", "sgd"], "logistic", {"l1": [1e-3, 1e-2]}, {})
    models = []
    caches = Caches(None, pytest.fail)
    for opened in (open_source, caches.open, caches.open):
        test = TestSet.read(opened(path), "logistic", None, "none", BadLines())
        comparison = Comparison(entrants, test, threads=2, curves=True)
        sources = [opened(path), opened(path)]
        comparison.run(sources, BadLines())
        models.append([(c.model.to_bytes(), c.curve) for c in comparison.contenders])
    assert isinstance(sources[1].part, Kept)
    assert models[0] == models[1] == models[2]
