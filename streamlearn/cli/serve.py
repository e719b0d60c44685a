"""The daemon: learns from a ZeroMQ socket while it answers predict, snapshot and status.

Prints where it listens and every setting in force, then logs on stderr until it is stopped:
SIGTERM (or Ctrl-C, or `streamlearn shutdown`) learns what is queued and writes a checkpoint; SIGHUP
reads --config again. With --state DIR it goes on where it was stopped, bit for bit. Settings come
from --config FILE (see conf/serve.toml), then from STREAMLEARN_* variables, then from flags.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
from ipaddress import ip_address
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from streamlearn.catalogue import ALGORITHMS
from streamlearn.cli import learning
from streamlearn.cli import settings as table
from streamlearn.cli.fit import check_agreement, fresh, in_force
from streamlearn.cli.stderr import write
from streamlearn.daemon import logs
from streamlearn.daemon.disk import Disk
from streamlearn.daemon.learning import Every
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.limits import allow_files, share_heap
from streamlearn.daemon.notify import Manager
from streamlearn.daemon.server import Options, Server
from streamlearn.daemon.state import StateFolder
from streamlearn.errors import CannotCreate, ConfigError, StreamlearnError, UsageError
from streamlearn.keys import KeyFolder
from streamlearn.ports import FEED_PORT, PUBLISH_PORT, REQUEST_PORT
from streamlearn.training import Training

PLACES = {
    "bind": ("requests", REQUEST_PORT),
    "bind_feed": ("feed", FEED_PORT),
    "bind_publish": ("publish", PUBLISH_PORT),
}
RELOADED = ("publish_every", "checkpoint_every", "max_clients", "max_rate", "log_level")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="TOML", help="settings; see conf/serve.toml")
    table.add_flags(parser.add_argument_group("the daemon"), learning.DAEMON)
    table.add_flags(parser.add_argument_group("what is learned"), learning.SERVED)
    parameters = parser.add_argument_group("parameters", "each --algo takes its own")
    table.add_flags(parameters, learning.LEARNING)


def run(args: argparse.Namespace) -> int:
    given = table.collect(args, learning.SERVE, learning.EVERY)
    log = logs.start(value(given, "log"), value(given, "log_level"))
    try:
        serve(args, given, log)
    except StreamlearnError as error:
        if value(given, "log") != "json":
            raise
        log.critical("%s", error)  # every line of that log is JSON
        return error.exit_code
    return 0


def serve(args: argparse.Namespace, given: dict[str, Any], log: logging.Logger) -> None:
    check_places(given)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it waits until we listen
    share_heap()
    if warning := allow_files(value(given, "max_clients")):
        log.warning(warning)
    folder = None
    if "state" in given:
        disk = Disk(os.environ.get("STREAMLEARN_FAILPOINT"))
        durability = value(given, "durability")
        folder = StateFolder(given["state"], durability, value(given, "journal_bytes"), disk)
    try:
        if folder:
            place = str(folder.checkpoint_path)
            ledger = folder.recover(
                lambda: streaming(given), lambda held: check_agreement(held, given, place)
            )
        else:
            ledger = Ledger(streaming(given))
        training = ledger.training
        server = Server(
            ledger,
            options_of(given),
            folder,
            {
                **training.settings,
                "normalize": training.normalize,
                "multiclass": training.multiclass,
                "max_classes": training.max_classes,
                "max_nonzeros": given.get("max_nonzeros"),
                **daemon_settings(given),
            },
            lambda running: reload(args, given, running),
            given.get("max_nonzeros"),
        )
        log.info(in_force(training, "serve"))
        shown = {"max_nonzeros": given.get("max_nonzeros"), **daemon_settings(given)}
        log.info(" ".join(f"{k}={v}" for k, v in shown.items()))
        if folder is None:
            log.warning("no --state: what is learned is lost when the daemon ends")
        server.run()
        log.info("stopped at %d examples", ledger.t)
    finally:
        write("")  # a log that nobody can read is no reason for another exit code
        if folder:
            folder.close()


def streaming(given: dict[str, Any]) -> Training:
    """A learner for a stream that has no end."""
    training = fresh(given)
    algo = training.settings["algo"]
    if ALGORITHMS[algo].batch:
        raise UsageError(f"--algo {algo} needs all examples in memory; a stream has no end")
    return training


def value(given: dict[str, Any], name: str) -> Any:
    """What was said, or the default."""
    setting = learning.SERVE[name]
    if name in given or setting.switch:
        return given.get(name, setting.default)
    return setting.read(setting.default)


def options_of(given: dict[str, Any]) -> Options:
    places = {
        name: given.get(setting) or default_places(name, port)
        for setting, (name, port) in PLACES.items()
    }
    return Options(
        **places,
        publish_every=Every(*value(given, "publish_every")),
        checkpoint_every=value(given, "checkpoint_every"),
        queue_bytes=value(given, "queue_bytes"),
        max_message=value(given, "max_message"),
        max_clients=value(given, "max_clients"),
        max_rate=value(given, "max_rate"),
        own_core=value(given, "own_core"),
        keys=KeyFolder(given["keys"]) if "keys" in given else None,
        manager=Manager(os.environ.get("NOTIFY_SOCKET"), os.environ.get("WATCHDOG_USEC")),
    )


def check_places(given: dict[str, Any]) -> None:
    """Nobody listens to the world by mistake."""
    for setting in PLACES:
        for place in given.get(setting, ()):
            if not is_local(place) and "keys" not in given:
                raise ConfigError(
                    f"--{setting.replace('_', '-')} {place}: others than this machine could reach "
                    "it, and there is no list of who may. Make keys with: streamlearn keys new "
                    "NAME, and serve with --keys keys; or bind to 127.0.0.1"
                )


def is_local(place: str) -> bool:
    host = place.removeprefix("tcp://").rsplit(":", 1)[0].strip("[]")
    if place.startswith("ipc://") or host in ("localhost", "lo"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def default_places(name: str, port: int) -> list[str]:
    """tcp on the loopback and ipc in a folder that only this user can enter."""
    home = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(home, "streamlearn") if home else Path(gettempdir(), f"streamlearn-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or folder.is_symlink():
            raise ConfigError(f"{folder}: belongs to somebody else; use --bind")
    except OSError as error:
        raise CannotCreate(f"{folder}: cannot hold our sockets: {error.strerror}") from error
    return [f"tcp://127.0.0.1:{port}", f"ipc://{folder}/{name}"]


def daemon_settings(given: dict[str, Any]) -> dict[str, Any]:
    """The daemon's own settings in force, for the log and for `config`."""
    shown = {}
    for setting in learning.DAEMON:
        text = given.get(setting.name, setting.default)
        if isinstance(text, tuple):
            text = str(Every(*text))
        if setting.name not in PLACES:  # told where it listens
            shown[setting.name] = text
    return shown


def reload_keys(server: Server) -> None:
    """Whatever is wrong with the settings, a revoked key is out."""
    log = logging.getLogger("streamlearn")
    if server.guard:
        try:
            if server.guard.reload():
                server.publisher.cut_off()
            log.info("%d keys are on the list", len(server.guard.allowed))
        except StreamlearnError as error:
            log.error("the list of keys stays as it is: %s", error)


def reload(args: argparse.Namespace, before: dict[str, Any], server: Server) -> None:
    """Take over what may change while running; a mistake in the file changes nothing."""
    log = logging.getLogger("streamlearn")
    reload_keys(server)
    try:
        given = table.collect(args, learning.SERVE, learning.EVERY)
    except StreamlearnError as error:
        log.error("settings stay as they are: %s", error)
        return
    server.learning.publish_every = Every(*value(given, "publish_every"))
    server.learning.checkpoint_every = value(given, "checkpoint_every")
    server.limits.clients = value(given, "max_clients")
    server.limits.rate = value(given, "max_rate")
    server.inbox.nudge()  # it may wait for what was due before
    log.setLevel(value(given, "log_level").upper())
    changed = {k for k in {*given, *before} if given.get(k) != before.get(k)}
    for name in sorted(changed):
        if name in RELOADED:
            server.settings[name] = daemon_settings(given)[name]
            log.info("%s is now %s", name, server.settings[name])
        else:
            log.warning("%s has changed; that needs a restart", name)
    before.clear()
    before.update(given)
