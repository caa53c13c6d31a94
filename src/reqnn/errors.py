"""The exceptions that user input can raise, each with advice in its message, and the checks that raise most of them."""

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
    """A training ends early: interrupted, out of time, or taken over by another process. `resume=True` continues it."""


class NoRuleError(ReqnnError, NotImplementedError):
    """An operation met quaternion features and no rule says what it should do with them.

    Attributes:
        reason: what is wrong, in one sentence.
        operation: the torch function or module that was called.
        layer: the name of the submodule in which it was called, "" for the model itself.
        location: ``file:line: code`` in the user's own code.
        source: the layer with weights that made the quaternion operand, if it is known.
        functions: the user's plain functions in which it was called, innermost first (`reqnn.tensor.trace.user_functions`).
    """

    def __init__(
        self,
        reason: str,
        operation: str = "",
        layer: str | None = None,
        location: str = "",
        source: str | None = None,
        functions: tuple[str, ...] = (),
    ) -> None:
        self.reason, self.operation, self.layer, self.location, self.source = reason, operation, layer, location, source
        self.functions = functions
        super().__init__(self._message())

    def _message(self) -> str:
        if not self.operation:
            return self.reason
        where = f"in layer '{self.layer}'" if self.layer else "in the model's own forward"
        return (
            f"no rule for {self.operation} on quaternion features, {where}\n"
            f"  at {self.location}\n"
            f"  why: {self.reason}\n"
            f"  ways out: {'; '.join(self._ways_out())}"
        )

    def _ways_out(self) -> list[str]:
        """What the user may do, as far as it can be done there."""
        if self.source:
            real = f"place Quaternion2Real before the layer that makes this tensor (to_real='{self.source}')"
        else:
            real = "features that a layer has made may become real before it (to_real='name'), coordinates may not"
        if self.layer:
            ways = [
                f"let the submodule compute in the PCA frame (coordinates=('{self.layer}',), or coordinates='auto')",
                f"drop the submodule if the network works without (remove=('{self.layer}',))",
            ]
        else:
            auto = "let the function around it compute in the PCA frame (coordinates='auto')"
            ways = [
                *([auto] if self.functions else []),
                "move these lines into a submodule, which may compute in the PCA frame (coordinates=('name',)) or be dropped "
                "if the network works without (remove=('name',))",
                "leave these lines as they are and revise only the submodule that makes the features "
                "(model.part = reqnn.revise(model.part, its_input))",
            ]
        return [
            real,
            *ways,
            "swap a function of yours (replace={'name': function})",
            "register a rule of your own (reqnn.rule)",
            "or run the network as it is in PCA frames (rules='frames')",
        ]

    def located(
        self, operation: str, layer: str | None, location: str, source: str | None = None, functions: tuple[str, ...] = ()
    ) -> NoRuleError:
        """The same error with the place where it happened, if it had none."""
        if not self.operation:
            self.operation, self.layer, self.location, self.source = operation, layer, location, source
            self.functions = functions
            self.args = (self._message(),)
        return self


class MatrixError(NoRuleError):
    """A real matrix multiplies coordinates."""


class SelfCheckError(NoRuleError):
    """A revised network's outputs change with the orientation or the order of the points, or do not depend on the cloud.

    `reason` says what was measured and what to do; `layer` and `location` where it begins, if known.
    """

    def __init__(self, reason: str, layer: str | None = None, location: str = "") -> None:
        super().__init__(reason, "", layer, location)


def printable(text: str) -> str:
    """Text that can be printed and stored: file names that are not UTF-8 are shown with escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """For the end of a message: "; did you mean a, b?", or "" if nothing known is similar."""
    close = difflib.get_close_matches(word, list(known), n=3)
    return f"; did you mean {', '.join(close)}?" if close else ""


def check_choice(value: str, known: Iterable[str], name: str, hint: str = "") -> None:
    """Raise `InputError` unless a value is one of those known."""
    known = list(known)
    if value not in known:
        raise InputError(f"{name} is {value!r}; it is one of {', '.join(known)}{hint}")


def check_least(value: float, name: str, least: int = 1) -> None:
    """Raise `InputError` unless a number is at least this."""
    if not value >= least:
        raise InputError(f"{name} is {value}; at least {least} is needed")


def check_share(value: float, name: str) -> None:
    """Raise `InputError` unless a number is between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(f"{name} is {value}; a share between 0 and 1 is needed, such as 0.1")
