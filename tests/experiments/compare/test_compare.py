"""Rule sets side by side: the same settings, equal epochs or equal time, every result once."""

import json
import threading
from dataclasses import replace

import pytest
from filelock import FileLock

from experiments.__main__ import main
from experiments.compare import pace as pace_module
from experiments.compare.contest import Contest, pace_key, trials
from experiments.compare.pace import Pace, measure_pace, read_paces, settled_paces, write_paces
from experiments.compare.report import comparison, rows_of
from experiments.harness.trial import differing
from experiments.paper import budgets
from reqnn.errors import InputError
from written_shapes import TINY, write_data

FAST, SLOW = Pace(0.01, 8, 32, 100, 1), Pace(0.04, 8, 32, 100, 1)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("REQNN_DATA", str(write_data(tmp_path / "data")))
    monkeypatch.setitem(budgets.BUDGETS, "quick", TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contest(**given):
    return Contest(**{"rules": ("paper", "full"), "budget": TINY, "epochs": 2, **given})


def test_only_the_rules_differ():
    ours = contest()
    one, two = (ours.config("modelnet40", "dgcnn", rules) for rules in ("paper", "full"))
    assert set(differing(one, two)) == {"rules", "unit"}  # and the constants of a set
    assert one.equivariant
    assert not ours.config("modelnet40", "dgcnn", None).equivariant


def test_constants_of_the_papers_set_are_not_given_to_others():
    ours = contest(budget=budgets.REDUCED)
    assert ours.config("modelnet40", "dgcnn", "paper").rule_options == {"c": 0.1}
    assert ours.config("modelnet40", "dgcnn", "vector-neurons").rule_options == {}
    assert ours.config("modelnet40", "dgcnn", "full").rule_options == {"unit": "pool"}


def test_equal_time_means_fewer_epochs_for_the_slower(place):
    ours = contest(minutes=0.1, epochs=0)
    paces = {"dgcnn/paper": FAST, "dgcnn/full": SLOW}
    paper, full = (one.config.epochs for one in trials(ours, paces))
    assert paper > 3 * full > 3
    assert full == max(1, round(6 / (1.15 * 0.04 * (43 // 8))))


def test_all_of_one_seed_come_first(place):
    ours = contest(seeds=2, data=("modelnet40", "3d-mnist"))
    keys = [one.key for one in trials(ours, {})]
    assert keys[:2] == ["modelnet40/dgcnn/paper/0", "modelnet40/dgcnn/full/0"]
    assert [key[-1] for key in keys] == ["0"] * 4 + ["1"] * 4
    assert {one.group for one in trials(ours, {})} == {"compare/quick-epochs-2"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rules": ("papers",)}, "no rule set is named"),
        ({"models": ("resnet",)}, "no network of table 4 is named 'resnet'"),
        ({"data": ("digits",)}, "no data set of table 4 is named 'digits'"),
        ({"epochs": 0}, "give --epochs N"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"minutes": -1.0}, "not negative"),
    ],
)
def test_wrong_contests(given, said):
    with pytest.raises(InputError, match=said):
        contest(**given)


def test_paces_are_measured_in_turns_and_kept(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(pace_module, "_step", lambda network, optimizer, config, turn: order.append(config.rules) or 0.5 + turn)
    ours = contest()
    configs = {pace_key("dgcnn", rules): ours.config("modelnet40", "dgcnn", rules) for rules in ours.rules}
    found = measure_pace(configs, repeats=3)
    assert order == ["paper", "full"] * 4
    assert found["dgcnn/full"].seconds == 2.5  # the median of repeats 1, 2, 3; the first does not count
    write_paces(tmp_path / "a" / "pace.json", found)
    assert read_paces(tmp_path / "a" / "pace.json") == found
    assert read_paces(tmp_path / "none.json") == {}
    held = read_paces(tmp_path / "a" / "pace.json")
    for name, config in configs.items():
        assert held[name].is_of(config)
        assert not held[name].is_of(replace(config, options={**config.options, "width": 0.5}))


def test_paces_that_are_known_stay_when_a_rule_set_is_added(tmp_path, monkeypatch):
    """Another pace would be another number of epochs for runs that are done."""
    monkeypatch.setattr(pace_module, "_step", lambda *args: 1.0)
    path = tmp_path / "pace.json"
    first = settled_paces(path, contest(rules=("paper",)).paced(), may_measure=True)
    assert set(first) == {"dgcnn/paper", "dgcnn/original"}
    monkeypatch.setattr(pace_module, "_step", lambda *args: 2.0)
    both = settled_paces(path, contest().paced(), may_measure=True)
    assert {name: pace.seconds for name, pace in both.items()} == {"dgcnn/paper": 1, "dgcnn/original": 1, "dgcnn/full": 2}
    assert read_paces(path) == both


def test_what_is_shown_is_not_measured(tmp_path):
    with pytest.raises(InputError, match=r"no pace of dgcnn/paper, .* without --show first"):
        settled_paces(tmp_path / "pace.json", contest().paced(), may_measure=False)


def test_processes_wait_for_the_one_that_measures(tmp_path, monkeypatch):
    path, wanted = tmp_path / "pace.json", contest().paced()
    monkeypatch.setattr(pace_module, "_step", lambda *args: 1.0)
    theirs = measure_pace(wanted["dgcnn"])
    monkeypatch.setattr(pace_module, "measure_pace", None)
    found = []
    with FileLock(path.with_suffix(".lock")):
        other = threading.Thread(target=lambda: found.append(settled_paces(path, wanted, may_measure=True)))
        other.start()
        other.join(0.2)
        assert other.is_alive()
        write_paces(path, theirs)
    other.join(60)
    assert found == [theirs]


def test_the_command_end_to_end(place, capsys):
    words = ["compare", "--rules", "paper", "full", "--epochs", "2", "--budget", "quick", "--seeds", "2"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "wrote results/compare.md" in said
    found = json.loads((place / "results" / "compare.json").read_text())
    rows = {row["rules"]: row for row in found["rows"]}
    assert [run["seed"] for run in rows["full"]["runs"]] == [0, 1]
    assert all(run["upright"] == run["rotated"] for row in rows.values() for run in row["runs"])
    assert rows["full"]["step_seconds"] > 0
    assert (place / "results" / "compare.png").stat().st_size > 10_000
    text = (place / "results" / "compare.md").read_text()
    assert (
        "python -m experiments compare --rules paper full --model dgcnn --data modelnet40 --epochs 2 --seeds 2 --budget quick"
        in text
    )
    assert "±" in text
    before = sorted(path.stat().st_mtime_ns for path in (place / "runs").rglob("*.safetensors"))
    assert main([*words, "--show"]) == 0
    assert sorted(path.stat().st_mtime_ns for path in (place / "runs").rglob("*.safetensors")) == before


def test_what_is_missing_is_said(place):
    ours = contest()
    wanted = trials(ours, {})
    table = comparison(ours, rows_of(ours, wanted, place), {"dgcnn/full": FAST, "dgcnn/original": SLOW}, place)
    assert "not measured yet" in table.notes[-1]
    assert [str(cell) for cell in table.rows[1]][4:] == ["–"] * 5 + ["10", "0.25", "–", "0"]


def test_without_time_nothing_is_trained(place, capsys):
    words = ["compare", "--rules", "paper", "--epochs", "2", "--budget", "quick", "--max-minutes", "0"]
    assert main(words) == 0
    assert "the time is up" in capsys.readouterr().err
    assert not (place / "runs").exists()


def test_a_wrong_rule_set_is_an_error(place, capsys):
    assert main(["compare", "--rules", "papers", "--epochs", "1"]) == 2
    assert "there are: frames, full, paper, vector-neurons" in capsys.readouterr().err


def test_a_budget_that_goes_on_with_trained_networks_is_refused():
    with pytest.raises(InputError, match="the budget longer starts from trained networks"):
        contest(budget=budgets.BUDGETS["longer"])
