"""The table of algorithms: what each minimises, how it moves, what it costs, when to use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamlearn.record import Record, field

SL = (
    "Zhang and others: Sparse learning for stochastic composite optimization (AAAI 2014); "
    "Sparse learning with stochastic composite optimization (TPAMI)"
)
SUFFIX = (
    "Rakhlin, Shamir and Sridharan: Making gradient descent optimal for strongly convex stochastic "
    "optimization (ICML 2012)"
)
RDA = (
    "Xiao: Dual averaging methods for regularized stochastic learning and online optimization "
    "(JMLR 2010)"
)
FORWARD = (
    "Duchi and Singer: Efficient online and batch learning using forward backward splitting "
    "(JMLR 2009)"
)
TRUNCATED = "Langford, Li and Zhang: Sparse online learning via truncated gradient (JMLR 2009)"
ADAGRAD = (
    "Duchi, Hazan and Singer: Adaptive subgradient methods for online learning and stochastic "
    "optimization (JMLR 2011)"
)
FTRL = "McMahan and others: Ad click prediction: a view from the trenches (KDD 2013)"
ORDA = (
    "Chen, Lin and Pena: Optimal regularized dual averaging methods for stochastic optimization "
    "(NIPS 2012)"
)
SSG = (
    "Lin, Chen and Pena: A sparsity preserving stochastic gradient method for composite "
    "optimization (2011)"
)
EPOCH = (
    "Hazan and Kale: Beyond the regret minimization barrier: an optimal algorithm for stochastic "
    "strongly-convex optimization (COLT 2011)"
)
MIRROR = (
    "Shalev-Shwartz and Tewari: Stochastic methods for l1 regularized loss minimization (ICML 2009)"
)
STABLE = (
    "Xie, Fan, Verscheure and Ren: Efficient and numerically stable sparse learning "
    "(ECML PKDD 2010)"
)
BALL = (
    "Duchi, Shalev-Shwartz, Singer and Chandra: Efficient projections onto the l1-ball for "
    "learning in high dimensions (ICML 2008)"
)
GRADES = (
    "Garg and Khandekar: Gradient descent with sparsification: an iterative algorithm for sparse "
    "recovery with restricted isometry property (ICML 2009)"
)

PHI = "mean loss + l1 |w|_1 + l2/2 |w|^2"
O_NNZ = "O(non-zeros of the example)"
O_SEEN = "O(features seen) for each example: for comparison, not for wide data"


class Algorithm(Record, frozen=True):
    """One entry of the catalogue."""

    name: str
    title: str
    paper: str
    objective: str
    update: str
    serves: str
    words: str  # 8-byte words a feature
    use: str
    parameters: tuple[str, ...]
    cost: str = O_NNZ
    defaults: Mapping[str, Any] = field(default_factory=dict)
    classifies_only: bool = False
    losses: tuple[str, ...] | None = None  # None: all
    batch: bool = False  # keeps all examples in memory and solves at a snapshot


_COMMON = ("bias", "max_features")
_BATCH = ("bias",)
_STEP = ("l1", "l2", "t0", "step_cap", "l1_step")
_MEAN = (*_STEP, "weights", "alpha", "total")
_SGD_STEP = "w <- w - eta_t (g + l2 w), eta_t = 1/(l2 (t + t0)); then each w_j to S_{eta_t l1}(w_j)"
_CONVERSION = "v = S_{l1/L}(w - G/L)"

ALGORITHMS: dict[str, Algorithm] = {
    a.name: a
    for a in (
        Algorithm(
            "adaptivesl",
            "adaptive averaging, converted in its own metric; no knob to turn",
            "our own",
            "mean loss + sum of b_j |w_j|, b_j = evidence (sqrt(Q_j) + M_j)/t; with --l1: b_j = l1",
            "w_j = -sgn(S_j) (|S_j| - t b_j)_+ / h_j, h_j = c M_j (M_j + sqrt(Q_j))/eta; S and Q "
            "the sums of gradients and of their squares, M the largest |x_j|, c the root mean "
            "square of |x/M|; w and g averaged with weight t, then v_j = S_{b_j/L_j}(w_j - "
            "g_j/L_j), L_j = smoothness h_j/t",
            "the converted mean: exactly sparse",
            "8",
            "first; whatever the scale of the features",
            ("evidence", "eta", "l1", "smoothness", *_COMMON),
            defaults={"l1": 0.0},
        ),
        Algorithm(
            "averagesl",
            "SGD, averaged iterate and gradient, converted",
            SL,
            PHI,
            f"{_SGD_STEP}; w, and G = g + l2 w, averaged with the same weights; {_CONVERSION}",
            "the converted mean: exactly sparse",
            "4 (suffix: 6)",
            "to minimise that very objective",
            (*_MEAN, "smoothness", *_COMMON),
        ),
        Algorithm(
            "optimalsl",
            "two phases: any algorithm, then gradients at its frozen mean, converted",
            SL,
            PHI,
            f"phase one; then G = g + l2 w averaged at its mean w, which is fixed; {_CONVERSION}",
            "the converted frozen mean: exactly sparse",
            "8 (suffix: 10; another first phase: its own and 4)",
            "when the gradient must be unbiased; to sparsify any other algorithm",
            (*_MEAN, "phase_one", "phase_one_alpha", "smoothness", *_COMMON),
            cost=f"{O_NNZ}, or what phase one costs",
            defaults={"weights": "linear"},
        ),
        Algorithm(
            "lastsl",
            "SGD, last iterate converted with the averaged gradient",
            SL,
            PHI,
            f"{_SGD_STEP}; G = g + l2 w averaged; {_CONVERSION} at the last w",
            "the converted last iterate: exactly sparse, noisier",
            "4 (suffix: 6)",
            "to compare with the papers",
            (*_MEAN, "smoothness", *_COMMON),
        ),
        Algorithm(
            "asgd",
            "alpha-suffix averaging of SGD",
            SUFFIX,
            PHI,
            f"{_SGD_STEP}; w averaged over the last alpha of the run",
            "the mean: accurate but dense",
            "6 (linear: 4)",
            "when size does not matter",
            (*_MEAN, *_COMMON),
            defaults={"weights": "suffix"},
        ),
        Algorithm(
            "sgd",
            "SGD with lazy l1",
            SL,
            PHI,
            _SGD_STEP,
            "the last iterate: sparse only on sparse data, noisy",
            "2",
            "as a baseline",
            (*_STEP, *_COMMON),
        ),
        Algorithm(
            "fobos",
            "forward-backward splitting",
            FORWARD,
            PHI,
            "w <- S_{eta_t l1}((1 - eta_t l2) w - eta_t g)",
            "the last iterate",
            "2 (other schedules: 3)",
            "as a baseline with a schedule of your own",
            ("l1", "l2", "schedule", "eta", "t0", "step_cap", *_COMMON),
            defaults={"schedule": "inverse", "eta": 0.5},
        ),
        Algorithm(
            "tg",
            "truncated gradient",
            TRUNCATED,
            "mean loss + l1 |w|_1",
            "w <- w - eta_t g; every K-th example w_j <- S_{K eta_t l1}(w_j) where |w_j| <= theta",
            "the last iterate",
            "3",
            "as a baseline",
            ("l1", "schedule", "eta", "truncate_every", "theta", *_COMMON),
            defaults={"eta": 0.5},
        ),
        Algorithm(
            "rda",
            "regularised dual averaging",
            RDA,
            "mean loss + the regulariser: l1 |w|_1 + l2/2 |w|^2, l1 |w|_1, l2/2 |w|^2, or w in a "
            "box, ball or simplex",
            "S = sum of g;  l1l2: w = -S_{l1 t}(S)/(l2 t + damping);  l1: w = -S_{l1 t + gamma "
            "enhanced sqrt(t)}(S)/(gamma sqrt(t));  sets: w = the projection of -S/(gamma "
            "sqrt(t));  kl: w ~ exp(-S/(gamma t)), of mass radius",
            "the newest iterate: very sparse with l1l2, l1 and l1ball; with --point mean the mean "
            "of all: steady but dense",
            "2 (point mean: 3)",
            "the sparsest of the simple ones; l1l2 is the one to try",
            (
                "regularizer",
                "l1",
                "l2",
                "gamma",
                "enhanced",
                "damping",
                "radius",
                "point",
                *_COMMON,
            ),
            cost=f"{O_NNZ}; l1ball and kl: O(features seen)",
        ),
        Algorithm(
            "adagrad-rda",
            "dual averaging with adaptive steps",
            ADAGRAD,
            PHI,
            "w_j = -S_{l1 t}(S_j) / (l2 t + (delta + sqrt(Q_j))/eta), S and Q sums of g and g^2",
            "the newest iterate",
            "3",
            "what practitioners pick; eta matters",
            ("l1", "l2", "eta", "delta", *_COMMON),
            defaults={"l2": 0.0, "eta": 1.0},
        ),
        Algorithm(
            "ftrl",
            "FTRL-Proximal",
            FTRL,
            "mean loss + (l1/t) |w|_1 + (l2/t)/2 |w|^2; with --growing without the 1/t",
            "z += g - sigma w, n += g^2, sigma = (sqrt(n + g^2) - sqrt(n))/eta; "
            "w = -S_l1(z)/((beta + sqrt(n))/eta + l2)",
            "the newest iterate",
            "3",
            "what practitioners pick; l1 is not multiplied by t",
            ("l1", "l2", "eta", "beta", "growing", *_COMMON),
            defaults={"l1": 1.0, "l2": 1.0, "eta": 0.1},
        ),
        Algorithm(
            "orda",
            "optimal regularised dual averaging",
            ORDA,
            PHI,
            "y mixes x and z; x <- S_{l1/M}((1 - l2/M) y - g/M), M = l2/theta^2 + Gamma, theta = "
            "2/(k+2); z from the weighted gradient sum",
            "x: nearly but not exactly sparse",
            "3",
            "to compare with the papers; needs l2 of 0.1 or a large stiffness",
            ("l1", "l2", "stiffness", *_COMMON),
            defaults={"l2": 0.1},
        ),
        Algorithm(
            "ssg",
            "sparse stochastic gradient, the forerunner of orda",
            SSG,
            PHI,
            "as orda, with z moved by the gradient mapping (y - x)/theta",
            "x",
            "3",
            "to compare with the papers",
            ("l1", "l2", "stiffness", *_COMMON),
            cost=O_SEEN,
            defaults={"l2": 0.1},
        ),
        Algorithm(
            "epochgd",
            "epoch gradient descent",
            EPOCH,
            PHI,
            "constant steps within an epoch, w <- S_{eta l1}((1 - eta l2) w - eta g); the next "
            "starts at the mean, twice as long, with half the step; the first has 4/(l2 eta) "
            "examples, eta = min(1/l2, 1/(curvature * mean |x|^2 over the first 100))",
            "the mean of the last finished epoch",
            "4",
            "as a baseline",
            ("l1", "l2", *_COMMON),
        ),
        Algorithm(
            "smidas",
            "mirror descent made sparse",
            MIRROR,
            "mean loss + l1 |w|_1",
            "theta <- S_{eta l1}(theta - eta g); "
            "w_j = sgn(theta_j) |theta_j|^(p-1)/||theta||_p^(p-2)",
            "the newest iterate",
            "2",
            "for few relevant features among many",
            ("l1", "eta", "p", "p_factor", "dimension", "shrinks", *_COMMON),
            cost=O_SEEN,
            defaults={"eta": 0.01},
        ),
        Algorithm(
            "perceptron",
            "soft-threshold perceptron",
            STABLE,
            "mistakes",
            "if y m <= margin: w_j <- S_threshold(w_j + eta y x_j) for the features of the "
            "example; an importance weight multiplies eta; the loss is only reported",
            "the newest iterate",
            "2",
            "for a bound on the density while learning",
            ("eta", "threshold", "margin", "density", "at_bound", *_COMMON),
            defaults={"eta": 0.1},
            classifies_only=True,
        ),
        Algorithm(
            "l1ball",
            "SGD projected on the l1 ball",
            BALL,
            "mean loss, |w|_1 <= radius",
            "w <- the projection of w - eta_t g on the ball",
            "the last iterate",
            "2",
            "when the size of the weights is given",
            ("radius", "schedule", "eta", *_COMMON),
            cost=O_SEEN,
            defaults={"eta": 0.5},
        ),
        Algorithm(
            "scd",
            "stochastic coordinate descent (batch)",
            MIRROR,
            "mean loss + l1 |w|_1",
            "a coordinate at random: w_j <- S_{l1/k_j}(w_j - g_j/k_j), g the gradient of the mean "
            "loss, k_j = curvature * mean x_j^2",
            "the last point: exactly sparse",
            "all examples, 16 bytes a non-zero",
            "on data that fits in memory, to know the optimum",
            ("l1", "iterations", "seed", *_BATCH),
            cost="O(non-zeros of the column) for each iteration; reads all data into memory",
            defaults={"iterations": 1_000_000},
            losses=("logistic", "squared", "squared_hinge"),
            batch=True,
        ),
        Algorithm(
            "detcd",
            "deterministic coordinate descent (batch)",
            MIRROR,
            "mean loss + l1 |w|_1",
            "as scd, with the coordinate of the largest guaranteed decrease",
            "the last point: exactly sparse",
            "all examples, 16 bytes a non-zero",
            "to compare with the papers",
            ("l1", "iterations", *_BATCH),
            cost="up to O(non-zeros of the data) for each iteration; reads all data into memory",
            losses=("logistic", "squared", "squared_hinge"),
            batch=True,
        ),
        Algorithm(
            "grades",
            "gradient descent with hard thresholds (batch)",
            GRADES,
            "mean squared loss, at most `nonzeros` weights",
            "w <- the `nonzeros` largest in size of w + X'(y - Xw)/(m stiffness), m examples; the "
            "bias always stays",
            "the last point: exactly sparse",
            "all examples, 16 bytes a non-zero",
            "when the number of weights is given; diverges when the stiffness is too small",
            ("nonzeros", "iterations", "stiffness", *_BATCH),
            cost="O(non-zeros of the data) for each iteration; reads all data into memory",
            losses=("squared",),
            batch=True,
        ),
    )
}
STREAMING = {name: entry for name, entry in ALGORITHMS.items() if not entry.batch}
