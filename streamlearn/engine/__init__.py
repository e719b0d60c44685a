# Package of compiled modules: the engine knows no files, no sockets, no clock.
