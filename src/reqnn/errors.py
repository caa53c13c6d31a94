"""The exceptions that user input can raise, each with advice in its message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ReqnnError(Exception):
    """Base of every exception that `reqnn` raises on purpose."""


class InputError(ReqnnError, ValueError):
    """An argument has the wrong shape, dtype or values; the message says what was given and what to do."""


class MissingPackageError(ReqnnError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class ExportError(ReqnnError, RuntimeError):
    """A network cannot be exported, or the file is not as good as the network; `proof` holds the measurements, if there are."""

    def __init__(self, message: str, proof: object = None) -> None:
        super().__init__(message)
        self.proof = proof


class Stopped(Exception):
    """A training ends before it is done: it was interrupted, its time is up, or another process has taken its run over.

    Nothing is wrong with it; `resume=True` continues it.
    """


class NoRuleError(ReqnnError, NotImplementedError):
    """An operation met quaternion features and no rule says what it should do with them.

    Attributes:
        reason: what is wrong, in one sentence.
        operation: the torch function or module that was called.
        layer: the name of the submodule in which it was called, "" for the model itself.
        location: ``file:line: code`` in the user's own code.
        source: the layer with weights that made the quaternion operand, where it is known.
    """

    def __init__(
        self, reason: str, operation: str = "", layer: str | None = None, location: str = "", source: str | None = None
    ) -> None:
        self.reason, self.operation, self.layer, self.location, self.source = reason, operation, layer, location, source
        super().__init__(self._message())

    def _message(self) -> str:
        if not self.operation:
            return self.reason
        where = f"in layer '{self.layer}'" if self.layer else "in the model's own forward"
        return (
            f"no rule for {self.operation} on quaternion features, {where}\n"
            f"  at {self.location}\n"
            f"  why: {self.reason}\n"
            f"  ways out: place Quaternion2Real before the layer that makes this tensor (to_real='{self.source or 'name'}'); "
            "drop the submodule "
            "(remove=('name',)); feed it PCA-frame coordinates (coordinates=('name',)); swap the function "
            "(replace={'name': function}); register a rule of your own (reqnn.rule); or run the network as it is in PCA frames "
            "(rules='frames')"
        )

    def located(self, operation: str, layer: str | None, location: str, source: str | None = None) -> NoRuleError:
        """The same error with the place where it happened, if it had none."""
        return self if self.operation else NoRuleError(self.reason, operation, layer, location, source)

    def __reduce__(self) -> tuple:
        return NoRuleError, (self.reason, self.operation, self.layer, self.location, self.source)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """For the end of a message: "; did you mean a, b?", or "" if nothing known is similar."""
    close = difflib.get_close_matches(word, list(known), n=3)
    return f"; did you mean {', '.join(close)}?" if close else ""


class SelfCheckError(NoRuleError):
    """A revised network does not keep what `revise` promises.

    Its outputs change with the orientation or the order of the points, or they do not depend on the cloud at all.

    Attributes:
        reason: what was measured, where it begins, and what to do.
        layer: the submodule in which it begins, if it is known.
        location: ``file:line: code`` in the user's own code, if it is known.
    """

    def __init__(self, reason: str, layer: str | None = None, location: str = "") -> None:
        super().__init__(reason, "", layer, location)

    def __reduce__(self) -> tuple:
        return SelfCheckError, (self.reason, self.layer, self.location)
