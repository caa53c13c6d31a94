"""Networks that only experiments use: `python -m experiments train | eval | …` knows them by name, as `reqnn` knows its own."""

from __future__ import annotations

from experiments.autoencoders import frame  # noqa: F401 - the rules for the latent and the decoder of the autoencoder
from experiments.autoencoders.network import Autoencoder
from experiments.hierarchical_edgeconv import HierarchicalEdgeConv
from reqnn.models.registry import list_models, register

NAMES = ("autoencoder", "hierarchical_edgeconv")


def register_networks() -> None:
    """Let `reqnn.create_model` and the settings of a run name these networks."""
    if NAMES[0] not in list_models():
        register(NAMES[0], equivariant_options={"parts": 1})(Autoencoder)
        register(NAMES[1], to_real="head.fc1", recipes={"full": {"to_real": "conv"}})(HierarchicalEdgeConv)
