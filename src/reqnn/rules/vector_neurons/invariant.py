"""The invariant layer (Deng et al., section 3.5): features read in a frame that rotates with them.

    T = VN-MLP([V, V̄]) (3, 3),    V·Tᵀ: ⟨v_c, t_a⟩ for every channel c and axis a

V̄ is the mean over the cloud, if the input is a batch of clouds. V → V·R and T → T·R give V·R·Rᵀ·Tᵀ = V·Tᵀ: real, and the
same in every orientation. Three numbers a channel say where a vector points, not only how long it is.
"""

from __future__ import annotations

from torch import Tensor, nn

from reqnn.kernels.products import times
from reqnn.kernels.rows import to_rows
from reqnn.rules.options import channel_axis, choice, uniform, whole_number
from reqnn.rules.vector_neurons.base import vector_neurons, vectors_of
from reqnn.rules.vector_neurons.relu import cut
from reqnn.tensor import QuaternionTensor as Q
from reqnn.tensor.learned_call import LearnedCall

SLOPE = 0.2  # of the leaky ReLU in the network that makes the frame


@vector_neurons.rule("quaternion_to_real", row="Quaternion2Real")
def read_in_frame(x: Q, owner: nn.Module | None = None) -> Tensor:
    """V·Tᵀ in place of the squared norms of Quaternion2Real: 3·C numbers on the channel axis, or C with readings=1.

    Shapes: quaternions (B, C, *) → real (B, 3·C, *), the C readings along one axis side by side
    """
    learned = x.context.learned("frame", owner)
    axis: int = learned.constant("axis", lambda: channel_axis(x))
    rows = to_rows(vectors_of(x), axis)  # (*, 3, C)
    frame = make_frame(learned, rows, whole_number(x, "frame_width"), batched=x.context.batch is not None and axis > 0)
    readings = choice(x, "readings", 3, 1)
    if x.context.plan is not None:
        x.context.plan.readings = readings
    if readings == 3:
        return (frame.mT @ rows).flatten(-2).movedim(-1, axis)  # (*, 3, 3)·(*, 3, C)
    mixture = learned.parameter("mixture", (rows.shape[-1], 3), rows, uniform)
    return (times(frame, mixture) * rows).sum(-2).movedim(-1, axis)


def make_frame(learned: LearnedCall, rows: Tensor, width: int, batched: bool) -> Tensor:
    """T, as columns: two layers from the features at each place and their mean over the cloud to three vectors.

    Shapes: rows (B, *, 3, C) or (*, 3, C) → (…, 3, 3)
    """
    channels = rows.shape[-1]
    places = list(range(1, rows.dim() - 2)) if batched else []  # a list of points may hold several clouds
    hidden = times(rows, learned.parameter("hidden", (width, channels), rows, uniform))
    if places:
        of_mean = learned.parameter("mean", (width, channels), rows, uniform)
        hidden = hidden + times(rows.mean(places, keepdim=True), of_mean)
    direction = times(hidden, learned.parameter("direction", (width, width), rows, uniform))
    parts_first = cut(hidden.movedim(-2, 0), direction.movedim(-2, 0), SLOPE)
    return times(parts_first.movedim(0, -2), learned.parameter("axes", (3, width), rows, uniform))
