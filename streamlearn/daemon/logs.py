"""The daemon's log on stderr: a line of text, or a line of JSON, for each event."""

from __future__ import annotations

import json
import logging
import time


class Text(logging.Formatter):
    """2026-01-31T12:00:00Z info: words"""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{stamp(record)} {record.levelname.lower()}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": stamp(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event)


def stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))


def start(kind: str, level: str) -> logging.Logger:
    """Set up the one logger."""
    logging.raiseExceptions = False  # a log that cannot be written is no fault of the daemon
    log = logging.getLogger("streamlearn")
    handler = logging.StreamHandler()
    handler.setFormatter(Json() if kind == "json" else Text())
    log.handlers[:] = [handler]
    log.setLevel(level.upper())
    log.propagate = False
    return log
