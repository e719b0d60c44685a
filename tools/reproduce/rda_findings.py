"""What the rda experiment shows of its trials: tables, pictures and claims. Learns nothing."""

from __future__ import annotations

import math

import numpy as np

from reproduce.drawing import Curve, Panel, panels, patterns, triangle
from reproduce.results import Figure, Goal, Picture, Row, Table, figure
from reproduce.trials import Outcome

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PAIRS_PENALTY = 1.0
STRIDE = 7  # coprime to 10, so that every phase between two truncations comes up
LAST = ("SGD", "TG", "RDA", "RDA enhanced")
MEANS = tuple(f"{name}, mean" for name in LAST)
ALL = (*LAST, *MEANS, "batch")

# Outcomes of the trials by method and penalty.
Found = dict[tuple[str, float], list[Outcome]]


def values(found: Found, name: str, l1: float, key: str) -> list:
    return [outcome[key] for outcome in found[name, l1]]


def mean(found: Found, name: str, l1: float, key: str) -> float:
    return float(np.mean(values(found, name, l1, key)))


def penalty_table(found: Found) -> Table:
    rows = [
        Row(
            f"l1 {l1:g}",
            name,
            {
                "non-zeros": figure(values(found, name, l1, "nonzeros")),
                "error %": figure([100.0 * e for e in values(found, name, l1, "error")]),
                "objective": figure(values(found, name, l1, "objective")),
            },
        )
        for l1 in PENALTIES
        for name in ALL
    ]
    return Table(
        "6 against 7, one pass over 12,183 rows of raw pixels, gamma = 5000",
        ["non-zeros", "error %", "objective"],
        rows,
        "Non-zeros of 784; error on the 1,986 test rows; objective is mean logistic loss + "
        "l1 |w|_1 over the training rows. Means over orders of the rows.",
    )


def pair_table(pairs: dict[tuple[int, int], Outcome]) -> Table:
    rows = []
    for (a, b), outcome in pairs.items():
        figures = {
            "error %": figure([100.0 * e for e in outcome["errors"]]),
            "sd of error %": Figure(
                100.0 * spread(outcome["errors"]), trials=len(outcome["errors"])
            ),
            "non-zeros": figure(outcome["nonzeros"]),
            "sd of non-zeros": Figure(spread(outcome["nonzeros"]), trials=len(outcome["nonzeros"])),
        }
        rows.append(Row(f"{a} against", str(b), figures))
    columns = ["error %", "sd of error %", "non-zeros", "sd of non-zeros"]
    return Table(
        f"The 45 pairs of digits: RDA enhanced, l1 = {PAIRS_PENALTY:g}, gamma = 5000", columns, rows
    )


def spread(taken: list[float]) -> float:
    return float(np.std(taken, ddof=1))


# ---- pictures ------------------------------------------------------------------------------------


def pattern_picture(found: Found) -> Picture:
    columns = {f"l1 = {l1:g}": l1 for l1 in PENALTIES}
    images = {
        (name, column): np.array(found[name, l1][0]["signs"]).reshape(28, 28)
        for name in ALL
        for column, l1 in columns.items()
    }
    return Picture(
        "rda-patterns",
        "Signs of the weights that tell 6 from 7, after one pass: black negative, white positive, "
        "grey exactly zero. Above the last iterates, below them the means, last the batch optimum.",
        patterns(images, ALL, list(columns)),
    )


def way_picture(ways: list[tuple[str, float]], curves: list[list[int]]) -> Picture:
    drawn = []
    for l1 in dict.fromkeys(l1 for _, l1 in ways):
        lines = [
            Curve(name, STRIDE * np.arange(1, len(curve) + 1), curve, wide=0.7)
            for (name, of), curve in zip(ways, curves, strict=True)
            if of == l1
        ]
        drawn.append(Panel(f"l1 = {l1:g}", lines, "examples", "non-zeros"))
    return Picture(
        "rda-nonzeros",
        f"Non-zeros of every {STRIDE}th iterate, 6 against 7.",
        panels([drawn]),
    )


def trade_picture(found: Found) -> Picture:
    def curve(name: str, colour: int) -> Curve:
        count = [mean(found, name, l1, "nonzeros") for l1 in PENALTIES]
        error = [100.0 * mean(found, name, l1, "error") for l1 in PENALTIES]
        if name == "batch":
            return Curve(name, count, error, style="s-", colour=colour)
        spreads = [
            [spread(values(found, name, l1, key)) for l1 in PENALTIES]
            for key in ("nonzeros", "error")
        ]
        shown = name.removesuffix(", mean")
        return Curve(shown, count, error, spreads[0], [100.0 * e for e in spreads[1]], "o-", colour)

    drawn = [
        Panel(
            title,
            [*(curve(name, i) for i, name in enumerate(names)), curve("batch", 7)],
            "non-zeros",
            "test error %",
            log_y=True,
            y_range=(0.1, 20.0),
        )
        for title, names in (
            ("last iterates", LAST),
            ("means", MEANS),
        )
    ]
    return Picture(
        "rda-trade",
        "Test error against non-zeros for l1 from 0.01 (right) to 10 (left), 6 against 7; bars are "
        "one standard deviation over orders of the rows.",
        panels([drawn], (4.6, 3.4)),
    )


def pair_picture(pairs: dict[tuple[int, int], Outcome]) -> Picture:
    texts = {
        key: f"{100 * np.mean(o['errors']):.2f} %\n± {100 * spread(o['errors']):.2f}\n"
        f"{np.mean(o['nonzeros']):.0f}\n± {spread(o['nonzeros']):.1f}"
        for key, o in pairs.items()
    }
    images = {key: np.array(o["signs"]).reshape(28, 28) for key, o in pairs.items()}
    return Picture(
        "rda-pairs",
        f"All pairs of digits, RDA enhanced with l1 = {PAIRS_PENALTY:g}: signs of the weights "
        "below the diagonal; above it test error and non-zeros, with their standard deviations.",
        triangle(images, texts, 10),
    )


# ---- claims --------------------------------------------------------------------------------------


def claims(
    found: Found,
    curves: list[list[int]],
    ways: list[tuple[str, float]],
) -> list[Goal]:
    def compared(name: str, others: tuple[str, ...]) -> tuple[str, bool]:
        """Non-zeros of one beside those of the others, and whether it has the fewest throughout."""
        fewer = all(
            mean(found, name, l1, "nonzeros") < mean(found, other, l1, "nonzeros")
            for l1 in PENALTIES
            for other in others
        )
        told = "; ".join(
            f"l1 {l1:g}: " + " / ".join(f"{mean(found, n, l1, 'nonzeros'):.0f}"
                                        for n in (name, *others))
            for l1 in PENALTIES
        )  # fmt: skip
        return f"{' / '.join((name, *others))}: {told}", fewer

    text, met = compared("RDA", ("TG", "SGD"))
    goals = [Goal("the last iterate of RDA is sparser than those of TG and SGD at every l1", text,
                  met)]  # fmt: skip
    text, met = compared("RDA", ("RDA, mean",))
    goals.append(Goal("the mean of RDA's iterates is denser than the last", text, met))

    low = PENALTIES[:3]
    gaps = {
        n: [mean(found, n, l1, "nonzeros") / mean(found, "batch", l1, "nonzeros") for l1 in low]
        for n in ("RDA enhanced", "RDA", "TG")
    }
    nearest = all(
        abs(math.log(a)) <= min(abs(math.log(b)), abs(math.log(c)))
        for a, b, c in zip(*gaps.values(), strict=True)
    )
    goals.append(
        Goal(
            "for small l1 (0.01, 0.03, 0.1) the enhanced RDA comes nearest to the size of the "
            "batch optimum",
            "non-zeros over those of the optimum: "
            + "; ".join(f"{n} " + ", ".join(f"{g:.2f}" for g in v) for n, v in gaps.items()),
            nearest,
        )
    )
    tails = {way: np.array(curve[len(curve) // 2 :]) for way, curve in zip(ways, curves,
                                                                        strict=True)}  # fmt: skip
    swings = {way: float(tail.std() / max(1.0, tail.mean())) for way, tail in tails.items()}
    goals.append(
        Goal(
            "the non-zeros of RDA are steadier on the way than those of TG",
            "standard deviation over mean in the second half of the pass: "
            + "; ".join(f"{n} at l1 {l1:g}: {s:.2f}" for (n, l1), s in swings.items()),
            all(swings["RDA", l1] < swings["TG, K=10", l1] for l1 in {l1 for _, l1 in ways}),
        )
    )
    return goals
