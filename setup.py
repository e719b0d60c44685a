"""Extensions and compiler flags only; everything else is in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ENGINE = Path("streamlearn/engine")

# No -march=native, no -ffast-math, no contraction: a model must not depend on the machine it was
# learned on, and NaN checks must stay. -fno-math-errno only lets sqrt be one instruction.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-Wno-unused-function"]
LINK: list[str] = []
if os.environ.get("STREAMLEARN_SANITIZE") == "1":
    FLAGS += ["-g", "-O1", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
    LINK += ["-fsanitize=address,undefined"]

HEADERS = [str(p) for p in sorted(ENGINE.rglob("*.pxd"))]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": False,
}

extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=HEADERS,
        extra_compile_args=FLAGS,
        extra_link_args=LINK,
    )
    for path in sorted(ENGINE.rglob("*.pyx"))
]

setup(ext_modules=cythonize(extensions, compiler_directives=DIRECTIVES, build_dir="build"))
