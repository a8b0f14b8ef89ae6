"""Errors, named by who must act. Only the command line knows exit codes."""


class RungproofError(Exception):
    """Base of all errors that rungproof raises on purpose; never raised itself."""


class ConfigError(RungproofError):
    """The user's files or options are wrong: nothing was started."""


class HostError(RungproofError):
    """This machine is not fit or not free: nothing was measured."""


class SetupError(RungproofError):
    """An environment or a model could not be made; the next call goes on from there."""


class ServerError(RungproofError):
    """A server did not start, did not answer, or is not the one that was asked for."""


class EvidenceError(RungproofError):
    """A record, raw file or pack is not what it claims to be."""
