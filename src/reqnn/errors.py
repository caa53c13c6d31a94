"""The exceptions that user input can raise, each with advice in its message."""

from __future__ import annotations


class ReqnnError(Exception):
    """Base of every exception that `reqnn` raises on purpose."""


class InputError(ReqnnError, ValueError):
    """An argument has the wrong shape, dtype or values; the message says what was given and what to do."""


class NoRuleError(ReqnnError, TypeError):
    """An operation met quaternion features and no rule says what it should do with them.

    The message names the operation, the layer, the line of the user's own code, and the ways out.
    """
