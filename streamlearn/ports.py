"""Where a daemon listens unless told otherwise."""

REQUEST_PORT, FEED_PORT, PUBLISH_PORT = 7311, 7312, 7313
DEFAULT_ENDPOINT = f"tcp://127.0.0.1:{REQUEST_PORT}"
