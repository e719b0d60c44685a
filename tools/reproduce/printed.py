"""What the papers print, as they print it. Only numbers; errata are told where they are used."""

from __future__ import annotations

Printed = dict[str, dict[float, dict[str, str]]]  # method -> noise or l1 -> column -> figure


def rows(columns: str, conditions: tuple[float, ...], lines: dict[str, str]) -> Printed:
    """From one line a method: the figures of each condition, bars between; - is not printed."""
    names = columns.split()
    found: Printed = {}
    for method, line in lines.items():
        parts = [part.split() for part in line.split("|")]
        found[method] = {
            condition: {n: v for n, v in zip(names, part, strict=False) if v != "-"}
            for condition, part in zip(conditions, parts, strict=True)
        }
    return found


NOISES = (1.0, 4.0, 25.0, 100.0)
PENALTIES = (0.02, 0.03, 0.04, 0.05)

AAAI1 = rows(
    "Obj ED TD SSR",
    NOISES,
    {
        "FOBOS": "5.7099 0.99 0.99 0.671 | 7.2124 0.99 0.99 0.669 | 17.7351 1.00 1.00 0.667"
        " | 55.3119 1.00 1.00 0.667",
        "alpha-SGD": "5.6984 1.00 1.00 0.667 | 7.2035 1.00 1.00 0.667 | 17.7437 1.00 1.00 0.667"
        " | 55.406 1.00 1.00 0.667",
        "ORDA": "5.7031 0.99 0.56 0.700 | 7.2096 0.99 0.65 0.669 | 17.7606 1.00 0.91 0.667"
        " | 55.4296 1.00 1.00 0.667",
        "LastSL": "5.6968 0.50 0.50 1.000 | 7.2001 0.50 0.50 0.997 | 17.7339 0.62 0.62 0.897"
        " | 55.4195 0.82 0.82 0.757",
        "OptimalSL": "5.6954 0.50 0.50 1.000 | 7.1976 0.50 0.50 1.000 | 17.7128 0.52 0.52 0.983"
        " | 55.3109 0.75 0.75 0.807",
    },
)

TPAMI2 = rows(
    "Obj ED TD SSR Var",
    NOISES,
    {
        "FOBOS": "5.7 0.99 0.99 0.67 3.2e-8 | 7.2 1.00 1.00 0.67 1.1e-7"
        " | 17.7 1.00 1.00 0.67 7.4e-7 | 55.2 1.00 1.00 0.67 1.6e-5",
        "alpha-SGD": "5.7 1.00 0.99 0.67 3.3e-8 | 7.2 1.00 0.99 0.67 2.7e-8"
        " | 17.7 1.00 1.00 0.67 3.0e-7 | 55.2 1.00 1.00 0.67 4.3e-6",
        "ORDA": "5.7 0.99 0.50 0.67 1.2e-7 | 7.2 1.00 0.50 0.67 1.9e-7"
        " | 17.7 1.00 0.50 0.67 1.6e-6 | 55.2 1.00 0.74 0.67 4.8e-5",
        "LastSL": "5.7 0.50 0.50 1.00 7.8e-8 | 7.2 0.50 0.50 1.00 4.7e-8"
        " | 17.7 0.50 0.50 1.00 7.2e-7 | 55.2 0.57 0.57 0.93 4.9e-6",
        "OptimalSL": "5.7 0.50 0.50 1.00 4.5e-8 | 7.2 0.50 0.50 1.00 2.2e-8"
        " | 17.7 0.50 0.50 1.00 2.2e-7 | 55.2 0.50 0.50 1.00 4.8e-6",
        "AverageSL": "5.7 0.50 0.50 1.00 3.0e-8 | 7.2 0.50 0.50 1.00 3.3e-8"
        " | 17.7 0.50 0.50 1.00 2.4e-7 | 55.2 0.50 0.50 1.00 4.5e-6",
    },
)

# Of Table 3 we hold the densities and supports of two methods, and one running time.
TPAMI3 = rows(
    "ED SSR",
    (1.0, 4.0, 25.0),
    {
        "OptimalSL": "0.50 1.00 | 0.50 1.00 | 0.50 1.00",
        "AverageSL": "0.50 1.00 | 0.50 1.00 | 0.50 1.00",
    },
)
TPAMI3_SECONDS = 37.7  # AverageSL, 400,000 rows

AAAI2 = rows(
    "ED",
    PENALTIES,
    {
        "alpha-SGD": "0.825 | 0.825 | 0.825 | 0.825",
        "LastSL": "0.276 | 0.223 | 0.174 | 0.144",
        "OptimalSL": "0.269 | 0.199 | 0.153 | 0.125",
    },
)

TPAMI5 = rows(
    "Obj Error ED TD",
    PENALTIES,
    {
        "FOBOS": "0.392 0.052 0.39 0.39 | 0.462 0.057 0.38 - | 0.519 0.064 0.36 -"
        " | 0.564 0.070 0.33 -",
        "alpha-SGD": "0.382 0.045 1.00 0.99 | 0.448 0.051 1.00 1.00 | 0.502 0.055 1.00 1.00"
        " | 0.547 0.059 1.00 0.99",
        "ORDA": "0.377 0.052 0.41 0.36 | 0.440 0.057 0.38 0.34 | 0.491 0.061 0.36 0.32"
        " | 0.534 0.065 0.34 0.30",
        "LastSL": "0.389 0.051 0.33 - | 0.456 0.056 0.29 - | 0.508 0.062 0.25 -"
        " | 0.550 0.066 0.21 -",
        "OptimalSL": "0.381 0.044 0.31 - | 0.444 0.051 0.24 - | 0.495 0.055 0.18 -"
        " | 0.537 0.059 0.14 -",
        "AverageSL": "0.378 0.045 0.28 - | 0.441 0.052 0.21 - | 0.492 0.056 0.16 -"
        " | 0.535 0.060 0.12 -",
    },
)
