"""The daemon: learns from sockets while it answers from a published, immutable model.

    server.py     the poll thread: owns the sockets, answers what needs no learner
    commands.py   the table of commands
    inbox.py      the bounded queue between the two
    learning.py   the learning thread: owns the learner; reads, learns, acks, publishes
    batches.py    from a message to rows
    publisher.py  the publishing thread: snapshots and deltas to subscribers
    ledger.py     the learner and what is kept beside it; sessions.py: exactly once
    state.py      the state folder: lock, checkpoints, recovery
    journal.py    what came after the checkpoint; disk.py: the calls that durability rests on

No maths here: what a row teaches is the business of `training` and below.
"""
