"""Inputs that nobody would send, by the million: is anything read wrong, lost, or brought down?

    lines    mutated libsvm lines against the slow reference parser: same verdict, same bits
    numbers  words that are numbers, or nearly, against float()
    frames   mutated requests to a daemon of its own on the loopback, and garbage at its ports;
             then how long these let a good client wait, against as many well-formed ones: of
             200,000 frames or more twice as long is a violation
    models   mutated model, state, checkpoint, journal and delta bytes: a typed error, or what works
    strangers  no key, a wrong one or a revoked one at a daemon with keys: nobody reaches a handler

Prints a line for each part. An input that does what must not be is written to a file here, which
the message names; `--again FILE` judges it once more. Ends with 1 if there was any. The tests run
the same in short.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [str(ROOT / "tests"), *sys.path[1:], str(ROOT)]  # what is installed comes first

from fuzz.frames import besieged  # noqa: E402
from fuzz.hunt import Bag, Violation, hunt, part_named  # noqa: E402
from fuzz.mutation import Wrong  # noqa: E402
from fuzz.patience import ENOUGH, measured  # noqa: E402
from fuzz.strangers import turned_away  # noqa: E402

PARTS = {
    "lines": "fuzz.lines:Lines",
    "numbers": "fuzz.lines:Numbers",
    "frames": "",
    "models": "fuzz.models:Models",
    "strangers": "",
}


def line(name: str, bag: Bag, more: str) -> str:
    rate = bag.cases / bag.seconds if bag.seconds else 0.0
    fates = ", ".join(f"{count:,d} {fate}" for fate, count in bag.fates.most_common())
    return (
        f"{name}: {bag.cases:,d} in {bag.seconds:.1f} s ({rate:,.0f}/s), {more}; {fates}; "
        f"{len(bag.violations)} violations"
    )


def few(args: argparse.Namespace, inputs: int) -> int:
    """Connections, each of which costs what so many inputs do."""
    return args.count // inputs if args.connections is None else args.connections


def run(name: str, args: argparse.Namespace) -> Bag:
    if name == "frames" and not args.plant:
        bag, growth = besieged(args.count, args.seed, few(args, 100))
        more = f"memory {growth / 2**20:+.1f} MiB behind the warm-up"
        try:
            waits = measured(args.count, args.seed)
            more += f", {waits}"
            if args.count >= ENOUGH:
                waits.judge()
        except Wrong as error:
            bag.violations.append(Violation("frames", bag.cases, "frames", str(error), b""))
    elif name == "strangers":
        bag = turned_away(few(args, 1000))
        more = "each at two doors, nothing of it counted or learned"
    else:
        bag = hunt(args.plant or PARTS[name], args.count, args.seed, args.most)
        more = f"memory {bag.peak / 2**20:+.1f} MiB at most"
    print(line(name, bag, more), flush=True)
    return bag


def again(name: str, path: Path, plant: str) -> int:
    """Judge one input here, in this process."""
    part = part_named(plant or PARTS[name])
    try:
        print(part.judge(path.suffix.removeprefix("."), path.read_bytes()))
    except Exception as error:
        print(f"VIOLATION: {path}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--count", type=int, default=1_000_000, help="of each (default: 1,000,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--connections", type=int,
        help="of frames (default: count / 100) and strangers (default: count / 1000)",
    )  # fmt: skip
    parser.add_argument("--most", type=int, default=10, help="violations to end at (default: 10)")
    parser.add_argument("--again", type=Path, metavar="FILE", help="judge this input of the part")
    parser.add_argument("--plant", help=argparse.SUPPRESS)  # another judge, for the tests
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if args.again:
        if len(args.parts) != 1 or not PARTS[args.parts[0]]:
            parser.error("--again takes one of lines, numbers and models")
        return again(args.parts[0], args.again, args.plant)
    bad = 0
    for name in args.parts or PARTS:
        for violation in run(name, args).violations:
            bad += 1
            path = violation.save(Path())
            print(f"VIOLATION: {path}: {violation.what}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
