"""Tests of one part at a time; nothing here opens a socket or reads a data set."""
