"""fit --cache and compare --cache as a user meets them: files, words, full disks, broken runs."""

import os
import resource
import signal

import pytest

SUFFIX = ".slcache"


@pytest.fixture
def long(tmp_path, rows):
    """A file of several blocks, long settled."""
    path = tmp_path / "long.svm"
    path.write_bytes(b"".join(line[:-1] + b" # " + b"-" * 500 + b"\n" for line in rows(2000, 5)))
    os.utime(path, (1.6e9, 1.6e9))
    return path


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def quiet(shown) -> bool:
    return shown.stderr == ""


@pytest.mark.parametrize("threads", [1, 2])
def test_the_model_and_the_state_are_the_same_files(run, long, tmp_path, threads):
    fit = ("fit", "long.svm", "--threads", threads, "--passes", 2, "--progress", "none")
    run(*fit, "-o", "plain.sl", "--save-state", "plain.state")
    for number in range(2):
        done = run(*fit, "--cache", "-o", "cached.sl", "--save-state", "cached.state")
        assert quiet(done)
        assert (tmp_path / "long.svm.slcache").exists(), number
        for kind in ("sl", "state"):
            plain, cached = (tmp_path / f"{name}.{kind}" for name in ("plain", "cached"))
            assert plain.read_bytes() == cached.read_bytes()
    assert names(tmp_path) == {"long.svm", "long.svm.slcache", "plain.sl", "plain.state",
                               "cached.sl", "cached.state"}


def test_the_cache_is_what_is_read(run, long, tmp_path):
    """A source of the same size and time is taken for the same; then its bytes do not matter."""
    run("fit", "long.svm", "--cache", "-o", "a.sl")
    found = long.stat()
    long.write_bytes(b"x" * found.st_size)
    os.utime(long, ns=(found.st_atime_ns, found.st_mtime_ns))
    run("fit", "long.svm", "--cache", "-o", "b.sl")
    assert (tmp_path / "a.sl").read_bytes() == (tmp_path / "b.sl").read_bytes()
    os.utime(long)
    run("fit", "long.svm", "--cache", "-o", "c.sl", code=65)


def test_a_folder_for_caches_is_made_and_used(run, long, tmp_path):
    run("fit", "long.svm", "--cache-dir", "kept")
    assert len(names(tmp_path / "kept")) == 1
    run("fit", "long.svm", env={"STREAMLEARN_CACHE": "true"})
    assert (tmp_path / "long.svm.slcache").exists()
    (tmp_path / "long.svm.slcache").unlink()
    run("fit", "long.svm", "--no-cache", env={"STREAMLEARN_CACHE": "true"})
    assert not (tmp_path / "long.svm.slcache").exists()
    refused = run("fit", "long.svm", "--cache-dir", "long.svm", code=73)
    assert "--cache-dir long.svm: is no folder" in refused.stderr


def test_compare_takes_caches(run, long, tmp_path):
    words = ("compare", "long.svm", "--test", "long.svm", "--algo", "averagesl,sgd", "--json")

    def figures(*more):
        import json

        shown = json.loads(run(*words, *more).stdout)
        return [{**row, "ns_a_feature": None} for row in shown]

    plain = figures()
    assert figures("--cache") == plain
    assert (tmp_path / "long.svm.slcache").exists()
    assert figures("--cache", "--passes", "2") == figures("--passes", "2")


@pytest.mark.parametrize("words", [("fit",), ("fit", "-"), ("fit", "pipe")])
def test_what_cannot_be_read_again_is_refused(run, tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    refused = run(*words, "--cache", stdin=b"1 1:1\n", code=64)
    assert "no file that can be read again; name files" in refused.stderr


def test_a_cache_is_no_input_and_no_output(run, data, tmp_path):
    run("fit", "data.svm", "--cache")
    refused = run("fit", "data.svm", "data.svm.slcache", "--cache", code=64)
    assert "data.svm.slcache: is a cache; name the file that it was made from" in refused.stderr
    for words in (("-o", "data.svm.slcache"), ("--save-state", "data.svm.slcache")):
        assert "two things" in run("fit", "data.svm", "--cache", *words, code=64).stderr


def test_a_bad_label_is_told_alike(run, rows, tmp_path):
    text = b"".join(rows(600, 1, labels=("-1", "1"))) + b"\n  +3 1:1\n"
    (tmp_path / "data.svm").write_bytes(text)
    plain = run("fit", "data.svm", code=65).stderr.splitlines()[-1]
    assert "data.svm:602:3: label '+3' is not one of" in plain
    assert run("fit", "data.svm", "--cache", code=65).stderr.splitlines()[-1] == plain
    assert names(tmp_path) == {"data.svm"}
    run("fit", "data.svm", "--cache", "--loss", "squared")
    assert (tmp_path / "data.svm.slcache").exists()
    assert run("fit", "data.svm", "--cache", code=65).stderr.splitlines()[-1] == plain


def test_skipped_and_set_aside_lines_are_the_same_with_a_cache(run, long, tmp_path):
    text = long.read_bytes().splitlines(keepends=True)
    for place in (3, 900, 901, 1999):
        text[place] = b"+1 1:x\n"
    long.write_bytes(b"".join(text))
    fit = ("fit", "long.svm", "--passes", 2, "--on-error")
    run(*fit, "quarantine=plain.bad", "-o", "plain.sl")
    shown = run(*fit, "quarantine=cached.bad", "-o", "cached.sl", "--cache")
    assert shown.stderr.count("without a cache") == 1
    for kind in ("bad", "sl"):
        plain, cached = (tmp_path / f"{name}.{kind}" for name in ("plain", "cached"))
        assert plain.read_bytes() == cached.read_bytes()
    assert not (tmp_path / "long.svm.slcache").exists()


def test_damage_is_told_and_mended(run, long, tmp_path):
    fit = ("fit", "long.svm", "--passes", 2, "--progress", "none")
    run(*fit, "-o", "plain.sl")
    run(*fit, "--cache")
    cache = tmp_path / "long.svm.slcache"
    good = cache.read_bytes()
    cache.write_bytes(good[:60_000] + b"?" + good[60_001:])
    shown = run(*fit, "--cache", "-o", "cached.sl")
    assert shown.stderr == (
        "streamlearn: warning: long.svm.slcache: damaged: the checksum does not fit; long.svm is "
        "read instead\n")
    assert (tmp_path / "plain.sl").read_bytes() == (tmp_path / "cached.sl").read_bytes()
    assert cache.read_bytes() == good


@pytest.mark.parametrize("size", [40, 50_000])
def test_a_full_disk_is_told_and_learning_goes_on(run, long, tmp_path, size):
    """By RLIMIT_FSIZE; the model, to stdout, is not concerned."""
    fit = ("fit", "long.svm", "--passes", 2, "--progress", "none", "-o", "-")
    plain = run(*fit).stdout
    shown = run(
        *fit, "--cache",
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert shown.stdout == plain
    assert shown.stderr == (
        "streamlearn: warning: long.svm: not cached: the cache cannot be written: File too large\n")
    assert names(tmp_path) == {"long.svm"}


def test_a_place_that_cannot_be_written_is_told_and_learning_goes_on(run, long, tmp_path):
    (tmp_path / "long.svm.slcache").mkdir()
    run("fit", "long.svm", "-o", "plain.sl")
    shown = run("fit", "long.svm", "--cache", "--passes", 1, "-o", "cached.sl")
    assert "not cached: the cache cannot be written: Is a directory" in shown.stderr
    assert (tmp_path / "plain.sl").read_bytes() == (tmp_path / "cached.sl").read_bytes()
    assert names(tmp_path) == {"long.svm", "long.svm.slcache", "plain.sl", "cached.sl"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("with_", [signal.SIGINT, signal.SIGKILL])
def test_a_broken_run_leaves_nothing(start, tmp_path, threads, with_):
    """A slow algorithm over many features: the first reading cannot end in time."""
    with open(tmp_path / "slow.svm", "w") as stream:
        for i in range(30_000):
            items = " ".join(f"{i + 20 * j}:1" for j in range(100)) if i < 20 else f"{i % 999}:1"
            stream.write(f"{1 - 2 * (i % 2)} {items} #{i:90}\n")
    fit = start("fit", "slow.svm", "--algo", "smidas", "--cache", "--threads", threads)
    fit.wait_for(lambda line: line.strip().startswith("1,") or line.strip().startswith("2,"))
    fit.process.send_signal(with_)
    fit.finish(130 if with_ == signal.SIGINT else -signal.SIGKILL)
    assert names(tmp_path) - {"model.sl"} == {"slow.svm"}


def test_many_runs_at_once_make_one_cache(start, run, long, tmp_path):
    run("fit", "long.svm", "-o", "plain.sl")
    fits = [start("fit", "long.svm", "--cache", "--passes", 3, "-o", f"{i}.sl") for i in range(4)]
    for fit in fits:
        assert "warning" not in fit.finish().stderr
    assert len({(tmp_path / f"{i}.sl").read_bytes() for i in range(4)}) == 1
    assert names(tmp_path) == {"long.svm", "long.svm.slcache", "plain.sl", "0.sl", "1.sl", "2.sl",
                               "3.sl"}
    assert quiet(run("fit", "long.svm", "--cache", "-o", "last.sl", "--progress", "none"))
    assert (tmp_path / "last.sl").read_bytes() == (tmp_path / "plain.sl").read_bytes()
