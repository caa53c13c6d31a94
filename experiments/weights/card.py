"""A model card as Markdown: network, training, test results."""

from __future__ import annotations

from typing import Any

TERMS = {
    "modelnet40": "ModelNet40 is published for academic research; use what was trained on it accordingly.",
    "modelnet10": "ModelNet10 is published for academic research; use what was trained on it accordingly.",
}
"""Data set → terms of use."""

_SETTINGS = (
    "points",
    "epochs",
    "batch",
    "optimizer",
    "lr",
    "schedule",
    "weight_decay",
    "smoothing",
    "scale",
    "stretch",
    "jitter",
    "point_dropout",
    "options",
    "rule_options",
)


def card_markdown(card: dict[str, Any]) -> str:
    """The card of weights that ship."""
    test, training, config = card["test"], card["training"], card["config"]
    kind = f"REQNN of {card['network']} by the rules `{config['rules']}`" if card["equivariant"] else card["network"]
    lines = [
        f"# {card['name']}",
        "",
        f"{kind}, {card['parameters']:,} parameters, trained on {card['data']} ({len(card['classes'])} classes) "
        f"{_rotations(config['protocol'])}. Input: clouds of {card['points']} points, centred, in the unit sphere.",
        "",
        "```python",
        "import reqnn",
        "",
        f'net = reqnn.load("{card["name"]}")',
        'points = reqnn.data.read_cloud("FILE", points=net.card["points"])  # (N, 3)',
        "net.classes[net(points[None]).argmax()]",
        "```",
        "",
        f"`reqnn predict FILE… --weights {card['name']}`",
        "",
        "| tested on | accuracy | mean over classes |",
        "|---|---:|---:|",
        f"| {test['shapes']:,} test shapes as they come | {_percent(test['upright'])} | "
        f"{_percent(test['upright_class_mean'])} |",
        f"| each in {test['copies']} arbitrary orientations | {_percent(test['rotated'])} | "
        f"{_percent(test['rotated_class_mean'])} |",
        "",
        f"- {_percent(test['consistency'])} of the shapes keep their answer in all {test['copies']} orientations; the largest "
        f"change of a logit is {test['logit_change']:.1e}, beside a spread of {test['logit_spread']:.1f} between shapes.",
        f"- {_audit(card['audit'])}",
        f"- Training: {_training(training)}{_settings(config)}. {_selection(training)}",
        f"- File: {card['bytes'] / 1e6:.1f} MB, weights stored as {card['storage']}, SHA-256 `{card['sha256']}`.",
    ]
    if card.get("began_with"):
        before = card["began_with"]
        lines.append(
            f"- It began with weights of an earlier training (checksum `{before['weights']}`): {_settings(before['config'])}."
        )
    lines += [f"- {_changed(one)}" for one in card["changed"][:10]]
    lines += [f"- {TERMS[card['data']]}"] if card["data"] in TERMS else []
    lines += ["", f"Classes: {', '.join(card['classes'])}.", ""]
    return "\n".join(lines)


def _settings(config: dict[str, Any]) -> str:
    return ", ".join(f"{name} {config[name]}" for name in _SETTINGS if name in config)  # older cards have fewer


def _rotations(protocol: str) -> str:
    if protocol == "NR":
        return "without rotations"
    return "with arbitrary rotations" if protocol == "AR" else f"with rotations about {protocol}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _audit(audit: dict[str, Any]) -> str:
    verdict = "passes" if audit["ok"] else "fails"
    return (
        f"Audit: {verdict}. Largest relative error of any of {audit['layers']} layers in {audit['dtype']}: rotation "
        f"{audit['rotation_error']:.0e}, order of the points {audit['permutation_error']:.0e}; spread between clouds "
        f"{audit['spread']:.2f} ({audit['clouds']} clouds, {audit['rotations']} rotations, {audit['permutations']} orders)."
    )


def _training(training: dict[str, Any]) -> str:
    clouds, chosen = training["training_clouds"], training["validation_clouds"]
    return "" if clouds is None or chosen is None else f"{clouds:,} clouds, {chosen:,} more to validate by; "


def _selection(training: dict[str, Any]) -> str:
    if training.get("selected", True):
        return "The weights were chosen on the validation clouds, never on test shapes."
    return f"The weights are those of epoch {training['best_epoch']}, chosen neither on validation clouds nor on test shapes."


def _changed(one: dict[str, Any]) -> str:
    answers = ", ".join(f"{name} {count}×" for name, count in one["answers"].items())
    return f"Test shape {one['shape']} ({one['class']}) changes its answer: {answers}; {one['cause']}."
