"""The command `reqnn`: instant help, exit codes, messages without tracebacks, JSON."""

import json
import os
import re
import resource
import subprocess
import sys
import textwrap

import pytest
import torch

from reqnn.cli import main
from reqnn.commands import COMMANDS
from reqnn.commands.networks import example_inputs, parse_shape
from reqnn.errors import InputError, NoRuleError, Stopped

NETWORKS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width=8, gate=False, channels=3):
            super().__init__()
            self.gate = gate
            self.conv = nn.Conv1d(channels, width, 1)
            self.bn = nn.BatchNorm1d(width)
            self.fc = nn.Linear(width, 5)

        def forward(self, x):
            x = torch.relu(self.bn(self.conv(x)))
            if self.gate:
                x = torch.asinh(x)
            return self.fc(x.max(-1)[0])

    class Two(Net):
        def forward(self, x, extra):
            return super().forward(x) + extra

    def make():
        return Net()

    def sized(widths):
        return {(4, 2): Net(width=4)}[widths]

    def number():
        return 3

    constant = 3
"""
FAST = ["--rotations", "2", "--permutations", "2"]


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """A directory with a module of networks, and nothing of it left behind."""
    (tmp_path / "my_networks.py").write_text(textwrap.dedent(NETWORKS))
    (tmp_path / "broken_networks.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)
    for name in ("my_networks", "broken_networks"):
        sys.modules.pop(name, None)


def run(*arguments):
    return main([str(argument) for argument in arguments])


# -- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["audit", "--help"], ["predict", "--help"], ["--version"]])
def test_help_is_instant(arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "reqnn.cli", *arguments], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"torch", "sklearn", "matplotlib", "scipy"}
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5
    assert "reqnn" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, capsys):
    with pytest.raises(SystemExit) as stop:
        run(name, "--help")
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert f"reqnn {name}" in shown.partition("Examples:")[2]


def test_the_list_of_commands_is_short(capsys):
    with pytest.raises(SystemExit):
        run("--help")
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert "Examples" not in shown


def test_unknown_words_end_with_2():
    for words in (["adit"], ["paper", "table9"], ["audit", "a:b", "--rotation-count", "3"], []):
        with pytest.raises(SystemExit) as stop:
            run(*words)
        assert stop.value.code == 2


# -- audit and revise ------------------------------------------------------------------------------------------------


def test_audit_of_an_ordinary_network_ends_with_1(capsys):
    assert run("audit", "my_networks:Net", "--points", "2,3,32", *FAST) == 1
    shown = capsys.readouterr().out
    assert "'conv' is the first layer" in shown
    assert "\x1b" not in shown


def test_audit_of_a_revised_network_ends_with_0_and_writes_json(workplace):
    target = workplace / "deep" / "audit.json"
    options = ["--kwargs", '{"width": 6}', "--points", "2,3,32", "--equivariant", "--json", target]
    assert run("audit", f"{workplace}/my_networks.py:Net", *options, *FAST) == 0
    data = json.loads(target.read_text())
    assert data["ok"] is True
    assert data["rotation_error"] <= 1e-9
    assert data["rows"][0]["kind"] == "quaternion"
    assert data["options"] == {"width": 6}
    assert data["points"] == [[2, 3, 32]]
    assert data["equivariant"] is True
    assert data["settings"]["rotations"] == 2
    assert "torch" in data["provenance"]["versions"]


def test_audit_by_name_prints_json_alone(capsys):
    options = ["--options", '{"width": 0.0625}', "--points", "2,32,3", "--json", "-"]
    assert run("audit", "--model", "pointnet", "--equivariant", *options, *FAST) == 0
    assert json.loads(capsys.readouterr().out)["network"] == "pointnet"


def test_the_same_command_gives_the_same_numbers(capsys):
    words = ["audit", "my_networks:Net", "--points", "2,3,32", "--equivariant", "--json", "-", *FAST]
    run(*words)
    first = capsys.readouterr().out
    run(*words)
    assert capsys.readouterr().out == first


def test_float32_and_tolerance_reach_the_audit(capsys):
    words = ["audit", "my_networks:Net", "--points", "2,3,32", "--equivariant", *FAST]
    assert run(*words, "--dtype", "float32") == 0
    assert run(*words, "--dtype", "float32", "--tolerance", "1e-12") == 1


def test_revise_shows_the_report_and_audits(capsys):
    assert run("revise", "my_networks:make", "--points", "2,3,32", "--audit", *FAST) == 0
    shown = capsys.readouterr().out
    assert "Quaternion2Real before: fc" in shown
    assert "ok: every layer" in shown


def test_revise_writes_json(capsys):
    assert run("revise", "--model", "pointnet_stn", "--kwargs", '{"width": 0.0625}', "--json", "-") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["operations"][0] == "Convolution"
    assert data["parameters_after"] < data["parameters_before"]
    assert data["audit"] is None


def test_to_real_scalars_and_axes_reach_revise(capsys):
    words = ["revise", "my_networks:Net", "--kwargs", '{"channels": 4}', "--points", "2,4,32", "--scalars", "1"]
    assert run(*words, "--to-real", "fc") == 0
    assert "Quaternion2Real before: fc" in capsys.readouterr().out
    assert run("revise", "my_networks:Net", "--points", "2,3,12", "--vector-axis", "-2") == 0


def test_several_inputs(capsys):
    words = ["my_networks:Two", "--points", "2,3,32", "2,5"]
    assert run("audit", *words, "--equivariant", *FAST) == 0


def test_no_rule_ends_with_2_and_names_the_line(capsys):
    assert run("revise", "my_networks:Net", "--points", "2,3,32", "--kwargs", '{"gate": true}') == 2
    shown = capsys.readouterr()
    assert "no rule for asinh" in shown.err
    assert re.search(r"my_networks\.py:\d+: x = torch\.asinh\(x\)", shown.err)
    assert "Traceback" not in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["my_networks"], "MODULE:CLASS"),
        (["my_networks:Nett"], "did you mean Net?"),
        (["my_network:Net"], "no module is named 'my_network'"),
        (["broken_networks:Net"], "needs the module 'no_such_package'"),
        (["nowhere/networks.py:Net"], "there is no file nowhere/networks.py"),
        (["my_networks:constant"], "is a int"),
        (["my_networks:number"], "returns a int"),
        (["my_networks:Net", "--kwargs", '{"depth": 3}'], "unexpected keyword argument 'depth'"),
        (["my_networks:Net", "--points", "many"], "such as 2,128,3"),
        (["my_networks:Net", "--points", "2,5,7"], "no input has an axis of 3·V"),
        (["my_networks:Net", "--points", "2,32,3"], "fails on"),
        (["my_networks:Net", "--to-real", "fc"], "add --equivariant"),
        (["my_networks:Net", "--equivariant", "--points", "2,3,32", "--to-real", "fcc"], "no submodule 'fcc'"),
        (["my_networks:Net", "--model", "dgcnn"], "name one network"),
        ([], "name one network"),
        (["--model", "dgcn"], "did you mean dgcnn"),
        (["my_networks:Net", "--points", "2,3,32", "--rotations", "0"], "rotations is 0"),
        (["my_networks:Net", "--points", "2,3,32", *FAST, "--json", "/proc/none/x.json"], "cannot be written"),
    ],
)
def test_bad_input_ends_with_2_and_a_message(words, message, capsys):
    assert run("audit", *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(("text", "message"), [("{width: 3}", "Expecting property name"), ("[3]", "is not a JSON object")])
def test_options_are_a_json_object(text, message, capsys):
    with pytest.raises(SystemExit) as stop:
        run("audit", "my_networks:Net", "--kwargs", text)
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_lists_among_the_options_are_tuples(capsys):
    assert run("revise", "my_networks:sized", "--points", "2,3,32", "--kwargs", '{"widths": [4, 2]}') == 0


def test_debug_shows_the_traceback():
    with pytest.raises(InputError):
        run("audit", "my_networks:Nett", "--debug")
    with pytest.raises(NoRuleError):
        run("revise", "my_networks:Net", "--points", "2,3,32", "--kwargs", '{"gate": true}', "--debug")


@pytest.mark.parametrize(
    ("raised", "code"), [(KeyboardInterrupt(), 130), (Stopped("here"), 130), (RuntimeError("odd"), 3), (OSError(28, "full"), 2)]
)
def test_interrupts_and_accidents(raised, code, monkeypatch, capsys):
    def stop(self):
        raise raised

    monkeypatch.setattr(COMMANDS["models"], "run", stop)
    assert run("models") == code
    assert "Traceback" not in capsys.readouterr().err


def test_exit_code_of_the_process(workplace):
    done = subprocess.run(
        [sys.executable, "-m", "reqnn.cli", "audit", "my_networks:Nett"], capture_output=True, text=True, cwd=workplace
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["models"], ["--help"]])
def test_a_reader_that_has_seen_enough(words):
    """`reqnn … | head`: stdout is closed before the first line; nothing is said about it."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "reqnn.cli", *words], stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


# -- the other commands ----------------------------------------------------------------------------------------------


def test_models_lists_them_all(capsys):
    from reqnn.models import list_models

    assert run("models") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in list_models())
    assert "2,860,200" in shown


def test_paper_prints_and_writes(workplace, capsys):
    assert run("paper", "table1", "--out", "results") == 0
    assert "22 of 22 values as the paper prints them" in capsys.readouterr().out
    assert json.loads((workplace / "results" / "table1.json").read_text())["differences"] == []
    assert (workplace / "results" / "table1.md").exists()


# -- inputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 40, 3), (2, 3, 40), (2, 40, 6), (2, 9, 40), (40, 3), (2, 3, 8, 5)])
def test_example_clouds_have_the_shape_and_are_surfaces(shape):
    x = example_inputs([shape])
    assert x.shape == shape
    assert torch.equal(x, example_inputs([shape]))
    axis = next(i for i, size in enumerate(shape) if size in (3, 6, 9))
    lengths = x.movedim(axis, -1)[..., :3].norm(dim=-1)
    assert lengths.max() <= 1 + 1e-6
    assert lengths.std() > 0.05


def test_example_scalars_lie_between_0_and_1():
    x = example_inputs([(2, 40, 6)], scalars=3)
    assert x[..., 3:].min() >= 0
    assert x[..., 3:].max() <= 1
    assert x[..., :3].min() < 0


def test_parsing():
    assert parse_shape("2,128,3") == parse_shape("(2, 128, 3)") == parse_shape("2x128x3") == (2, 128, 3)
