"""A run of fit without a command line: what it leaves behind when it fails."""

import time

import pytest

from streamlearn.catalogue import resolve
from streamlearn.errors import Divergence
from streamlearn.sources import Source
from streamlearn.training import BadLines, Training


class Slow(Source):
    """Gives its text at once and takes its time to say that there is no more."""

    def readinto(self, buffer: memoryview) -> int:
        if self.taken:
            time.sleep(0.05)
        return super().readinto(buffer)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_diverges_has_closed_its_file(tmp_path, threads):
    path = tmp_path / "wild.svm"
    path.write_text("".join(f"{(-1) ** i * 3 * i} 1:{i % 7} 2:{i % 5 - 3}\n" for i in range(400)))
    source = Slow(str(path), path.open("rb", buffering=0), None)
    training = Training(resolve("tg", "squared", {"eta": 1e9}))
    with pytest.raises(Divergence):
        for _ in training.run([source], BadLines(), threads):
            pass
    assert source.under.closed
