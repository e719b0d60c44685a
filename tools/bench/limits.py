"""Parts of what `fit` does, which bound it: each can be measured alone. None makes a model.

    limits.py parse FILE LOSS
    limits.py stream FILE LOSS ALGO     parses and learns
    limits.py learn FILE LOSS ALGO      parses all, then learns; prints the seconds of learning
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

from streamlearn.catalogue import resolve
from streamlearn.engine.block import Block
from streamlearn.sources import open_source
from streamlearn.training import BadLines, Training, label_parser, parse, parse_into


def parse_only(path: str, loss: str) -> None:
    for _ in parse(open_source(path), label_parser(loss), BadLines(), Block()):
        pass


def stream(path: str, loss: str, algo: str) -> None:
    training = Training(resolve(algo, loss, {}))
    for block in parse(open_source(path), training.parser, BadLines(), training.block):
        training.learner.learn(block)


def new_blocks() -> Iterator[Block]:
    while True:
        yield Block()


def learn_only(path: str, loss: str, algo: str) -> None:
    training = Training(resolve(algo, loss, {}))
    blocks = list(parse_into(new_blocks(), open_source(path), training.parser, BadLines()))
    wall, cpu = time.perf_counter(), time.process_time()
    for block in blocks:
        training.learner.learn(block)
    json.dump({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}, sys.stdout)


if __name__ == "__main__":
    {"parse": parse_only, "stream": stream, "learn": learn_only}[sys.argv[1]](*sys.argv[2:])
