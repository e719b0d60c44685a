"""One pass over real data at the defaults: test error and size stay within what was promised."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import numpy as np
import pytest

from streamlearn.catalogue import PARAMETERS, resolve
from streamlearn.cli.learning import FIT
from streamlearn.cli.settings import from_file
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.model import Model
from streamlearn.sources import Source, open_source
from streamlearn.training import BadLines, Training, parse


def learned(path: Path, normalize: str = "none") -> Model:
    training = Training(resolve("adaptivesl", "logistic", {}), normalize=normalize)
    for _ in training.run([open_source(str(path))], BadLines()):
        pass
    return training.model()


def error_of(model: Model, source: Source, parser: Parser) -> float:
    wrong = rows = 0
    for block in parse(source, parser, BadLines(), Block()):
        labels = np.frombuffer(block.arrays()["labels"])
        wrong += int(((np.array(model.block_margins(block)) > 0) != (labels > 0)).sum())
        rows += len(labels)
    source.close()
    return wrong / rows


@pytest.mark.parametrize(
    ("name", "normalize", "error", "nonzeros"),
    [
        ("a9a", "none", 0.153, 123),
        ("imdb_bow", "none", 0.115, 6_500),
        ("imdb_bow", "l2", 0.115, 5_000),
        ("spamassassin", "none", 0.016, 4_000),
        ("reuters_moneyfx", "none", 0.032, 400),
    ],
)
def test_defaults_are_accurate_and_sparse(
    real_data: Path, name: str, normalize: str, error: float, nonzeros: int
) -> None:
    model = learned(real_data / f"{name}.train.svm.gz", normalize)
    test = open_source(str(real_data / f"{name}.test.svm.gz"))
    assert error_of(model, test, Parser()) <= error
    assert model.nonzeros <= nonzeros


def test_ten_digits_at_the_defaults_are_accurate_and_sparse(real_data: Path) -> None:
    training = Training(resolve("adaptivesl", "logistic", {}), multiclass=True)
    for _ in training.run([open_source(str(real_data / "mnist.train.svm.gz"))], BadLines()):
        pass
    model = training.model()
    wrong = rows = 0
    test = open_source(str(real_data / "mnist.test.svm.gz"))
    for block in parse(test, Parser("any"), BadLines(), Block()):
        told = np.array(model.classes)[np.array(model.block_margins(block)).argmax(axis=0)]
        labels = np.frombuffer(block.arrays()["labels"])
        wrong += int((told != labels).sum())
        rows += len(labels)
    test.close()
    assert model.classes == tuple(range(10))
    assert wrong / rows <= 0.090
    assert model.nonzeros <= 4_500


# TPAMI Table 5, AverageSL on MNIST 2 against 3: l1, test error, exact density.
TABLE_5 = [(0.02, 0.045, 0.28), (0.03, 0.052, 0.21), (0.04, 0.056, 0.16), (0.05, 0.060, 0.12)]


@pytest.fixture(scope="module")
def digits(real_data: Path) -> tuple[list[bytes], bytes]:
    """Rows of the digits 2 and 3: training lines, and the test text."""
    parts = []
    for part in ("train", "test"):
        with gzip.open(real_data / f"mnist.{part}.svm.gz") as stream:
            parts.append([line for line in stream if line[:2] in (b"2 ", b"3 ")])
    return parts[0], b"".join(parts[1])


@pytest.mark.parametrize(("l1", "printed_error", "printed_density"), TABLE_5)
def test_averagesl_repeats_the_printed_table(
    root: Path, digits: tuple[list[bytes], bytes], l1: float, printed_error: float,
    printed_density: float,
) -> None:
    given = from_file(str(root / "conf" / "paper" / "tpami5-averagesl.toml"), FIT)
    parameters = {k: v for k, v in given.items() if k in PARAMETERS} | {"l1": l1}
    settings = resolve(given["algo"], given["loss"], parameters)
    train, test = digits
    errors, densities = [], []
    for seed in range(10):
        lines = train[:]
        random.Random(seed).shuffle(lines)
        training = Training(settings, labels=given["labels"])
        source = Source("mnist", io.BytesIO(b"".join(lines)), None)
        for _ in training.run([source], BadLines()):
            pass
        model = training.model()
        held_out = Source("test", io.BytesIO(test), None)
        errors.append(error_of(model, held_out, Parser(given["labels"])))
        densities.append(model.nonzeros / 784)
    assert np.mean(errors) == pytest.approx(printed_error, abs=0.003)
    assert np.mean(densities) == pytest.approx(printed_density, abs=0.02)
