"""The networks of `reqnn.models` by name, as they are or revised."""

from reqnn.zoo.create import create_model, rules_for

__all__ = ["create_model", "rules_for"]
