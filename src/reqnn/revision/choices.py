"""What `revise` decides between one dry run and the next: where features become real, and what runs in the PCA frame."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from reqnn.errors import MatrixError, NoRuleError
from reqnn.nn.coordinates import InFrame
from reqnn.nn.quaternion_to_real import quaternion_to_real_hook
from reqnn.revision.coordinate_function import CoordinateFunction, FunctionInFrame
from reqnn.revision.dry_run import HeadWanted, VectorsLost
from reqnn.revision.parameters import UsedInParts
from reqnn.revision.plan import Met, Plan, RealBefore


@dataclass
class Block:
    """A submodule that runs in the PCA frame.

    Attributes:
        reason: why, if ``coordinates="auto"`` has found it.
        rotate_back: whether outputs that look like coordinates are.
        stays: whether none is, as the code behind it computes with them in the frame; the network's outputs are.
        frame: what makes it compute there.
    """

    reason: str = ""
    rotate_back: bool = False
    stays: bool = False
    frame: InFrame | None = None


@dataclass
class Choices:
    """What is decided so far.

    Attributes:
        to_real: layers that the user named.
        auto_real: whether features become real before the first Linear on (B, C) features.
        rotating: for each output of the original whether it is coordinates, which rotate.
        open: whether the user left it open which outputs these are.
        auto_frames: whether submodules that need real coordinates are looked for.
        blocks: submodules that run in the PCA frame.
        axis: of the coordinates in the network's input.
        functions: functions that are tried on real coordinates, by key; not used if None (strict).
        found: layers at the end of the network before which features become real.
        gates: layers that feed a gate → the gate.
        parts: parameters that keep their size, since the code takes slices of them.
        keep: layers that must not become real, since coordinates come from them.
        stated: whether the user said which outputs are coordinates (``outputs=``).
        matrices: whether real matrices (…, 3, 3) multiply coordinates in the PCA frame.
        back: place among the outputs → axes of those that are made in the PCA frame and rotated back at the end.
        likely: which outputs look like coordinates or matrices, and are taken for real; "" if none.
        error: what a dry run with `auto_real` has met, if another without it is tried.
    """

    to_real: list[str]
    auto_real: bool
    rotating: list[bool]
    open: bool
    auto_frames: bool
    blocks: dict[str, Block]
    axis: int = -1
    functions: dict[str, CoordinateFunction] | None = None
    found: list[str] = field(default_factory=list)
    gates: dict[str, str] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)
    stated: bool = False
    keep: set[str] = field(default_factory=set)
    matrices: bool = False
    back: dict[int, tuple[int, ...]] = field(default_factory=dict)
    likely: str = ""
    error: NoRuleError | None = None

    @property
    def real_before(self) -> list[str]:
        """All layers before which Quaternion2Real stands, heads aside."""
        return [*self.to_real, *self.found, *self.gates]

    def place(self, twin: nn.Module, axis: int) -> None:
        """Put all this into a copy of the network; `axis` is that of the input's coordinates."""
        for name in self.real_before:
            twin.get_submodule(name).register_forward_pre_hook(quaternion_to_real_hook, with_kwargs=True)
        for name, block in self.blocks.items():
            if isinstance(block.frame, FunctionInFrame):
                block.frame.rotate_back, block.frame.stays = not block.stays, block.stays
                continue
            module = twin.get_submodule(name)
            module.forward = block.frame = InFrame(
                module, axis, bool(block.reason) or block.rotate_back, block.rotate_back, block.stays
            )

    def learn(self, event: Exception, plan: Plan) -> None:
        """Decide anew after what ended a dry run; raise it again if nothing can be done about it."""
        twin = plan.model
        if isinstance(event, RealBefore):
            if event.gate:
                self.gates[event.layer] = event.gate
            else:
                self.found.append(event.layer)
        elif isinstance(event, UsedInParts):
            self.parts.add(str(event))
        elif isinstance(event, HeadWanted):
            self.auto_real = True
        elif isinstance(event, VectorsLost):
            if any(block.stays for block in self.blocks.values()) or (self._functions_in_frame and not event.layer):
                self.back[event.place] = ()  # `revise` knows the axis
                return
            if (not event.layer and self._rotate_back(twin, "")) or self._rotates_back(event.layer):
                return
            if self.found:
                self.keep.add(self.found.pop())
            elif self.auto_real:
                self.auto_real = False
            elif self._squash():
                return
            elif self.back:
                self.back[event.place] = ()  # beside matrices, which the frame gives too
            elif self.stated or (self.open and self.gates):
                raise NoRuleError(
                    "an output is to be coordinates, which rotate, but what it is made of is real"
                    f"{_behind(self.gates)}. Name the submodules that make it in coordinates=, or, if it is no coordinates, "
                    "say so: outputs=('real',), one entry per output",
                    "the model's output",
                    event.layer or None,
                )
            else:
                self.rotating = [False] * len(self.rotating)  # as the names in to_real= want it
        else:
            assert isinstance(event, NoRuleError)
            if self._both_real(event) or self._rotate_back(twin, event.layer or ""):
                return
            if self._on_coordinates(event) or self._multiplies_in_frame(event) or self._stay(event, twin):
                return
            if self._clouds_from_frames(event, plan) or self._into_frame(event, twin):
                return
            if self.error is None and self.auto_real and any(self.rotating):
                self.auto_real, self.error = False, event  # coordinates may come from what looked like a head
                return
            error = self.error or event
            if self.open and any(self.rotating):
                error = _and(error, "if an output only looks like coordinates, say so: outputs=('real', …), one entry each")
            if self.open and self.likely:
                error = _and(error, f"if these outputs belong to the cloud, say so beside coordinates=: {self.likely}")
            raise error

    def _on_coordinates(self, event: NoRuleError) -> bool:
        """Whether a function around the operation is tried on real coordinates from now on: the innermost that was not yet."""
        untried = [key for key in event.functions if self.functions is not None and key not in self.functions]
        if not untried or self.functions is None:
            return False
        self.functions[untried[0]] = CoordinateFunction(untried[0].rpartition(":")[0].rpartition(".")[2], self.axis)
        return True

    def _multiplies_in_frame(self, event: NoRuleError) -> bool:
        """Whether real matrices multiply coordinates in the PCA frame from now on, as the model's own forward does it."""
        found = self.auto_frames and not event.layer and isinstance(event, MatrixError)
        self.matrices, before = self.matrices or found, self.matrices
        return found and not before

    def _clouds_from_frames(self, event: NoRuleError, plan: Plan) -> bool:
        """Whether submodules whose real outputs may be clouds give coordinates from now on, as one meets coordinates."""
        if not self.auto_frames or event.layer or event.operation not in ("cat", "add", "sub") or "a real" not in event.reason:
            return False
        found = [name for name in plan.returned_three if not any(f"{name}.".startswith(f"{b}.") for b in self.blocks)]
        outermost = [name for name in found if not any(name.startswith(f"{other}.") for other in found)]
        self.blocks |= {name: Block("it returns coordinates", rotate_back=True) for name in outermost}
        return bool(outermost)

    @property
    def _functions_in_frame(self) -> bool:
        """Whether functions give numbers in the frame, of which stated outputs are made."""
        return self.stated and any(isinstance(block.frame, FunctionInFrame) for block in self.blocks.values())

    def _squash(self) -> bool:
        """Whether the last layer that feeds a tanh makes vectors from now on, which tanh shortens."""
        name = next((name for name, gate in reversed(self.gates.items()) if gate == "tanh" and name not in self.keep), None)
        if name is None:
            return False
        self.keep.add(name)
        del self.gates[name]
        return True

    def _both_real(self, event: NoRuleError) -> bool:
        """Whether one summand became real for a gate or a head, so that the layer that makes the other does, too."""
        if event.operation not in ("add", "sub", "cat") or "a real tensor" not in event.reason:
            return False
        into_frame = event.operation == "cat" and bool(self.auto_frames or self.blocks) and not event.layer
        if any(self.rotating) and not into_frame:
            return self._squash()
        if not into_frame and (event.operation == "cat" or not (self.gates or self.found)):
            return False
        if event.source is None or event.source in self.real_before:
            return False
        self.gates[event.source] = event.operation
        return True

    def _rotates_back(self, layer: str) -> bool:
        """Whether the submodule that made an output in the real part gives coordinates from now on."""
        if not self.blocks or (layer in self.blocks and self.blocks[layer].rotate_back):
            return False
        if not layer or (layer not in self.blocks and not self.auto_frames):
            way = f"coordinates=('{layer}', …)" if layer else "outputs="
            raise NoRuleError(
                "an output should be coordinates, which rotate, but what it is made of is real behind the submodules of "
                f"coordinates=. Name the submodule that makes it ({way}), or say that it is real (outputs=)",
                "the model's output",
            )
        self.blocks.setdefault(layer, Block("it returns coordinates")).rotate_back = True
        return True

    def _rotate_back(self, twin: nn.Module, layer: str) -> bool:
        """Whether the last block within a layer may give vectors from now on, instead of real numbers."""
        for name, block in reversed(self.blocks.items()):
            inside = not layer or name.startswith(f"{layer}.")
            if inside and not block.rotate_back and block.frame is not None and block.frame.may_rotate:
                block.rotate_back = True
                return True
        return False

    def _stay(self, event: NoRuleError, twin: nn.Module) -> bool:
        """Whether coordinates that blocks return stay in the frame, as the code behind multiplies them by matrices there."""
        blocks = [block for block in self.blocks.values() if block.frame is not None and block.frame.rotated]
        if not self.stated or any(block.stays for block in blocks) or event.layer in self.blocks:
            return False
        for block in blocks:
            block.rotate_back, block.stays = False, True
        return bool(blocks)

    def _into_frame(self, event: NoRuleError, twin: nn.Module) -> bool:
        """Whether the submodule around an operation without a rule runs in the frame from now on."""
        if not self.auto_frames or not event.operation:
            return False
        name = self._block_around(event.layer or "", twin)
        if not name and self._function_into_frame(event):
            return True
        if not name:
            raise _and(event, "coordinates='auto' finds no submodule around it: move these lines into one") from None
        self.blocks = {other: block for other, block in self.blocks.items() if not other.startswith(f"{name}.")}
        self.blocks[name] = Block(f"no rule for {event.operation}")
        return True

    def _function_into_frame(self, event: NoRuleError) -> bool:
        """Whether the innermost function around an operation in the model's own forward runs in the frame from now on."""
        functions = [(self.functions or {}).get(key) for key in event.functions]
        function = next((found for found in functions if found is not None and found.frame is None), None)
        if function is None:
            return False
        self.blocks[f"{function.__name__}()"] = Block(f"no rule for {event.operation}", frame=function.run_in_frame())
        return True

    def _block_around(self, layer: str, twin: nn.Module) -> str:
        """The innermost submodule around a layer that is the user's own and not in the frame yet; "" if there is none."""
        outside = layer
        for block in self.blocks:
            if f"{layer}.".startswith(f"{block}.") and len(block) <= len(outside):
                outside = block.rpartition(".")[0]
        name = outside
        while name and type(twin.get_submodule(name)).__module__.startswith("torch."):
            name = name.rpartition(".")[0]
        return name or outside

    def rows(self) -> list[Met]:
        """What the report adds to the operations of the dry run."""
        return [Met(name, gate, "Gate", "real", extension=True) for name, gate in self.gates.items()]

    def notes(self, plan: Plan) -> list[str]:
        """What a user should know."""
        notes = []
        if self.gates:
            places = ", ".join(f"{name} (into {gate})" for name, gate in self.gates.items())
            notes.append(f"layers that feed a gate became real, an extension of the paper: Quaternion2Real before {places}")
        for name, block in self.blocks.items():
            if block.reason:
                notes.append(f"'{name}' runs in the PCA frame of each cloud, an extension found by 'auto' ({block.reason})")
            if block.frame is not None and block.frame.rotated:
                notes.append(f"coordinates that '{name}' returns are rotated back from the PCA frame")
        if self.matrices:
            notes.append("real matrices multiply coordinates in the PCA frame of each cloud, an extension found by 'auto'")
        if self.back:
            notes.append(
                f"outputs {sorted(self.back)} are made in the PCA frame of the first cloud and rotated back, an extension"
            )
        if self.found:
            notes.append(
                f"no Linear on (B, C) features stands at the end, so the last layer ({', '.join(self.found)}) became the real "
                "part; choose another place with to_real="
            )
        if plan.vector_layers:
            notes.append(f"the outputs of {', '.join(plan.vector_layers)} are vectors (3 channels became 1 quaternion)")
        return notes


def _and(event: NoRuleError, more: str) -> NoRuleError:
    reason = f"{event.reason}; {more}"
    return NoRuleError(reason, event.operation, event.layer, event.location, event.source, event.functions)


def _behind(gates: dict[str, str]) -> str:
    return " behind " + ", ".join(f"'{name}' (it feeds {gate})" for name, gate in gates.items()) if gates else ""
