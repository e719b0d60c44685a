"""Validate data files before learning from them: rows, ids, labels, and everything odd.

Every bad line is located. Ends with exit code 65 when there is one.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from streamlearn.cli.stderr import say
from streamlearn.cli.stdin import check_stdin
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import DataError
from streamlearn.meter import sorted_by_class
from streamlearn.model import as_written
from streamlearn.sources import open_source
from streamlearn.training import BadLines, parse

SHOWN_ERRORS = 20
SHOWN_LABELS = 12


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="data; none or - is stdin")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


class Located(BadLines):
    """Shows the first bad lines and counts them all."""

    def meet(self, error: Any, text: bytes) -> None:
        self.count += 1
        if self.count <= SHOWN_ERRORS:
            say(str(error))


def run(args: argparse.Namespace) -> int:
    files = args.files or ["-"]
    check_stdin(files)
    facts = survey(files)
    if args.json:
        print(json.dumps(facts))
    else:
        report(facts)
    return DataError.exit_code if facts["bad_lines"] else 0


def survey(files: list[str]) -> dict[str, Any]:
    """Read everything once and count."""
    import numpy as np

    parser, bad, block = Parser("any"), Located(), Block()
    labels: Counter[float] = Counter()
    rows = features = empty = weighted = 0
    fewest, most, low, high, largest = None, 0, None, None, 0.0
    run, longest, last = 0, 0, None
    for path in files:
        source = open_source(path)
        try:
            for filled in parse(source, parser, bad, block):
                arrays = filled.arrays()
                ids = np.frombuffer(arrays["ids"], dtype=np.int64)
                values = np.frombuffer(arrays["values"])
                lengths = np.diff(np.frombuffer(arrays["offsets"], dtype=np.int64))
                y = np.frombuffer(arrays["labels"])
                rows += len(y)
                features += len(ids)
                empty += int((lengths == 0).sum())
                weighted += int((np.frombuffer(arrays["weights"]) != 1.0).sum())
                fewest = int(lengths.min()) if fewest is None else min(fewest, int(lengths.min()))
                most = max(most, int(lengths.max()))
                if len(ids):
                    low = int(ids.min()) if low is None else min(low, int(ids.min()))
                    high = int(ids.max()) if high is None else max(high, int(ids.max()))
                    largest = max(largest, float(np.abs(values).max()))
                if len(labels) <= 1000:
                    labels.update(y.tolist())
                for label in y.tolist():
                    run = run + 1 if label == last else 1
                    longest, last = max(longest, run), label
        finally:
            source.close()
    common = labels.most_common(SHOWN_LABELS)
    runs = {"examples": rows, "majority": common[0][1] if common else 0, "longest_run": longest}
    return {
        "rows": rows,
        "features": features,
        "features_a_row": {
            "fewest": fewest,
            "mean": features / rows if rows else None,
            "most": most,
        },
        "smallest_id": low,
        "largest_id": high,
        "largest_value": largest,
        "labels": {as_written(label): count for label, count in common},
        "distinct_labels": len(labels) if len(labels) <= 1000 else "more than 1000",
        "bad_lines": bad.count,
        "oddities": {
            "blank or comment lines": parser.blank,
            "rows without features": empty,
            "rows with ids not rising": parser.unsorted,
            "values written as 0": parser.zeros,
            "rows with an importance weight": weighted,
            "labels in runs, as if sorted": int(len(labels) <= 10 and sorted_by_class(runs)),
        },
    }


def report(facts: dict[str, Any]) -> None:
    a_row = facts["features_a_row"]
    print(f"rows             {facts['rows']:>16,d}")
    print(f"features         {facts['features']:>16,d}")
    if facts["rows"]:
        print(
            f"features a row   {a_row['mean']:>16.1f}   from {a_row['fewest']:,d} to "
            f"{a_row['most']:,d}"
        )
    if facts["largest_id"] is not None:
        print(f"ids              {facts['smallest_id']:>16d} to {facts['largest_id']}")
        print(f"largest |value|  {facts['largest_value']:>16g}")
    shown = ", ".join(f"{label} ({count:,d})" for label, count in facts["labels"].items())
    print(f"labels           {facts['distinct_labels']!s:>16}   {shown}")
    print(f"bad lines        {facts['bad_lines']:>16,d}")
    for name, count in facts["oddities"].items():
        if count:
            print(f"note: {name}: {count:,d}")
