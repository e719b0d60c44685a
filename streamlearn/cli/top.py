"""The largest weights of a model, by size; with names where you have them.

Of a model with many classes (fit --multiclass) each class has a table of its own; --class LABEL
picks one. The names file has one name a line for the ids 0, 1, 2, ...; or lines `id<TAB>name`.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from heapq import nlargest
from pathlib import Path

from streamlearn.cli.settings import read_positive
from streamlearn.errors import DataError, NoInput, UsageError
from streamlearn.model import Model
from streamlearn.multiclass import MulticlassModel, load_model, shown_classes


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file; - is stdin")
    parser.add_argument("-n", default="20", metavar="N", help="how many (default: 20)")
    parser.add_argument("--names", metavar="FILE", help="names of the features")
    parser.add_argument("--class", dest="label", metavar="LABEL", help="only this class")


def run(args: argparse.Namespace) -> int:
    try:
        many = read_positive(args.n)
    except ValueError as error:
        raise UsageError(f"-n {args.n}: {error}") from None
    model = load_model(args.model)
    names = read_names(args.names) if args.names else {}
    if not isinstance(model, MulticlassModel):
        if args.label is not None:
            raise UsageError(f"--class {args.label}: this model has no classes of its own (it was "
                             "learned without --multiclass)")
        show(model, many, names)
        return 0
    for label in model.classes if args.label is None else [read_class(args.label, model)]:
        print(f"class {label}")
        show(model.part(label), many, names)
    return 0


def read_class(text: str, model: MulticlassModel) -> int:
    """One of the classes of a model."""
    with suppress(ValueError):
        if int(text) in model.classes:
            return int(text)
    raise UsageError(f"--class {text}: expected one of {shown_classes(model.classes)}")


def show(model: Model, many: int, names: dict[int, str]) -> None:
    """The table of one binary model."""
    largest = nlargest(many, model.weights_by_id().items(), key=lambda item: abs(item[1]))
    print(f"{'id':>20} {'weight':>14}" + ("  name" if names else ""))
    for id_, weight in largest:
        print(f"{id_:>20} {weight:>+14.6f}" + (f"  {names.get(id_, '?')}" if names else ""))
    print(f"{'(bias)':>20} {model.bias:>+14.6f}")


def read_names(path: str) -> dict[int, str]:
    """{id: name} from either form of a names file."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise NoInput(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text: {error}") from error
    names = {}
    for number, line in enumerate(lines):
        key, tab, name = line.partition("\t")
        if not tab:
            names[number] = line
            continue
        try:
            names[int(key)] = name
        except ValueError:
            where = f"{path}:{number + 1}:1"
            raise DataError(f"{where}: bad id {key!r} (expected id<TAB>name)") from None
    return names
