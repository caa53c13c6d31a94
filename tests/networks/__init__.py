"""Small networks in many writing styles, written for the tests, with what is true of each.

None of them knows about reqnn: `tests/revision/test_revise.py` revises every one with no change to its code.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from experiments.networks import folding, kernels, pointnet, weights
from networks import attention, classifiers, coordinates, dense_outputs, einops_style, graph, kinds, reached, set_abstraction

BATCH, POINTS = 4, 24


@dataclass(frozen=True, eq=False)
class Case:
    """A network and what is true of it.

    Attributes:
        name: for the test's title.
        build: makes the ordinary network.
        axes: for each input the axis of its coordinates, None for a real input.
        channels: 3·V (+ scalars) for each input; the width of a real one.
        options: what `reqnn.revise` is told.
        vectors: outputs that turn with the cloud, by their place in the flattened outputs → axis of coordinates.
        order: what reordering the points does to the outputs: None for nothing, or the axis that is reordered with them.
        sampled: whether the ordinary network depends on the order of the points.
        scalars: trailing channels of the first input that no rotation touches.
        untrained: parameters that no output depends on.
    """

    name: str
    build: Callable[[], nn.Module]
    axes: tuple[int | None, ...]
    channels: tuple[int, ...] = (3,)
    options: dict[str, Any] = field(default_factory=dict)
    vectors: dict[int, int] = field(default_factory=dict)
    order: dict[int, int] = field(default_factory=dict)
    sampled: bool = False
    scalars: int = 0
    untrained: tuple[str, ...] = ()

    def model(self, seed: int = 0) -> nn.Module:
        """Make the ordinary network, in float32, as its author would."""
        torch.manual_seed(seed)
        return self.build()

    def inputs(self, seed: int = 1, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
        """Draw a batch of clouds, each of another shape, and what else the network takes."""
        generator = torch.Generator().manual_seed(seed)
        out = []
        for axis, channels in zip(self.axes, self.channels, strict=True):
            if axis is None:
                label = torch.arange(BATCH) % channels
                out.append(torch.eye(channels, dtype=dtype)[label])
                continue
            stretch = 0.4 + torch.rand(BATCH, 1, channels, generator=generator, dtype=torch.float64)
            cloud = torch.randn(BATCH, POINTS, channels, generator=generator, dtype=torch.float64) * stretch * 0.6
            out.append(cloud.movedim(-1, axis).contiguous().to(dtype))
        return tuple(out)

    def rotated(self, inputs: tuple[torch.Tensor, ...], rotation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Turn every vector of the inputs."""
        out = []
        for position, (x, axis) in enumerate(zip(inputs, self.axes, strict=True)):
            out.append(x if axis is None else turn(x, axis, rotation, self.scalars if position == 0 else 0))
        return tuple(out)

    def reordered(self, inputs: tuple[torch.Tensor, ...], order: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Reorder the points of every cloud."""
        return tuple(x if axis is None else x.index_select(3 - axis, order) for x, axis in zip(inputs, self.axes, strict=True))


def turn(x: torch.Tensor, axis: int, rotation: torch.Tensor, scalars: int = 0) -> torch.Tensor:
    """Turn the vectors along an axis of 3·V channels."""
    channels = x.shape[axis] - scalars
    vectors = x.narrow(axis, 0, channels).movedim(axis, -1).unflatten(-1, (-1, 3))
    turned = (vectors @ rotation.to(x.dtype).T).flatten(-2).movedim(-1, axis)
    return torch.cat([turned, x.narrow(axis, channels, scalars)], axis)


def flat(tree: Any) -> list[torch.Tensor]:
    """List the floating-point tensors of nested outputs, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree] if tree.is_floating_point() else []
    items = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else []
    return [tensor for item in items for tensor in flat(item)]


def wrapped() -> nn.Module:
    """Return a network inside DataParallel."""
    return nn.DataParallel(classifiers.Functional())


def lazy() -> nn.Module:
    """Return a network of lazy modules that has run once."""
    net = classifiers.Lazy()
    net(torch.randn(BATCH, 3, POINTS))
    return net


CASES = [
    Case("functional", classifiers.Functional, (1,)),
    Case("functions_only", classifiers.FunctionsOnly, (2,)),
    Case("sequential", classifiers.sequential, (1,)),
    Case("dense", classifiers.Dense, (1,)),
    Case("residual", classifiers.Residual, (2,)),
    Case("squeeze_excitation", classifiers.SqueezeExcitation, (1,)),
    Case("convolution_gate", classifiers.ConvolutionGate, (1,), options={"to_real": "squeeze"}),
    Case("containers", classifiers.Containers, (2,)),
    Case("einsum", classifiers.Einsum, (2,)),
    Case("raw_parameters", classifiers.RawParameters, (1,)),
    Case("parameter_views", classifiers.ParameterViews, (1,)),
    Case("tied", classifiers.Tied, (2,)),
    Case("lazy", lazy, (1,)),
    Case("flat_batches", classifiers.FlatBatches, (2,)),
    Case("group_norms", classifiers.GroupNorms, (1,)),
    Case("data_parallel", wrapped, (1,)),
    Case("double", lambda: classifiers.Dense().double().eval(), (1,)),
    Case("einops_layers", einops_style.einops_layers, (2,)),
    Case("einops_functions", einops_style.EinopsFunctions, (1,)),
    Case("attention_by_hand", attention.HandWritten, (2,)),
    Case("transformer_encoder", attention.Encoder, (2,)),
    Case("offset_attention", attention.OffsetAttention, (1,)),
    Case("vector_attention", attention.VectorAttention, (2,), options={"to_real": "weigh"}),
    Case("encoder_stack", attention.Stack, (2,)),
    Case("learned_queries", attention.LearnedQueries, (2,)),
    Case("edges", graph.EdgeNetwork, (1,)),
    Case("distance_weights", graph.DistanceWeights, (2,)),
    Case("set_abstraction", set_abstraction.Hierarchy, (1,), sampled=True),
    Case("set_abstraction_normals", lambda: set_abstraction.Hierarchy(normals=True), (1,), (6,), sampled=True),
    Case(
        "set_abstraction_colours",
        lambda: set_abstraction.Hierarchy(normals=True),
        (1,),
        (6,),
        options={"scalars": 3},
        scalars=3,
        sampled=True,
    ),
    Case("held_functions", set_abstraction.HeldFunctions, (2,), sampled=True),
    Case("decorated", reached.Decorated, (2,), sampled=True),
    Case("timed", reached.Timed, (2,), sampled=True),
    Case("static_method", reached.StaticMethod, (2,), sampled=True),
    Case("registry", reached.Registry, (2,), sampled=True),
    Case("propagation", pointnet.Propagation, (2,), order={0: 1}, sampled=True),
    Case("weight_net", coordinates.WeightedConvolution, (1,), options={"coordinates": ("weightnet",)}),
    Case("transformers", pointnet.TransformedPointNet, (1,), options={"remove": ("stn", "fstn")}),
    Case("normals", coordinates.Normals, (1,), (6,)),
    Case("colours", coordinates.Colours, (2,), (6,), options={"scalars": 3}, scalars=3),
    Case("affine_groups", coordinates.AffineGroups, (2,)),
    Case("segmentation", dense_outputs.Segmentation, (1,), order={0: 1}),
    Case("part_segmentation", dense_outputs.PartSegmentation, (1, None), (3, 7), order={0: 2}),
    Case("two_clouds", dense_outputs.TwoClouds, (2, 2), (3, 3)),
    Case("dict_outputs", dense_outputs.Named, (2,), vectors={1: 2}, order={1: 1}),
    Case("autoencoder", dense_outputs.Autoencoder, (2,), vectors={0: 2}, order={0: 1}),
    Case("latent_autoencoder", dense_outputs.LatentAutoencoder, (1,), options={"to_real": False}, vectors={0: 2}),
    Case("randla", weights.LocalSpatialEncoding, (2,)),
    Case("point_transformer", weights.PointTransformer, (2,)),
    Case("relation_shape", weights.RelationShape, (2,)),
    Case("curve_gate", weights.CurveGate, (2,)),
    Case("masked_pooling", kinds.MaskedPooling, (2,)),
    Case("folding", folding.FoldingNet, (1,), options={"coordinates": "auto"}, vectors={0: 1}),
    Case("completion", folding.CompletionNet, (2,), options={"coordinates": "auto"}, vectors={0: 2, 1: 2}),
    Case("kernel_points", kernels.KernelPointNet, (2,), options={"coordinates": "auto"}, sampled=True),
    Case("monomials", kernels.SpiderNet, (1,), options={"coordinates": ("spider1", "spider2")}),
    Case("directions", kernels.DirectionNet, (2,), options={"coordinates": "auto"}),
    Case("upsampled", dense_outputs.Upsampled, (1,), vectors={0: 1}),
    Case("offsets", dense_outputs.Offsets, (1,), vectors={0: 1}, order={0: 2}),
]
"""Every network that revises."""
