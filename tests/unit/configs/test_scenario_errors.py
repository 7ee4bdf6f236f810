"""Error messages for wrong scenarios: whole messages, one row for each kind of mistake."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

import configs.scenario.scenario_files
from configs.classes.policies import POLICY_KINDS
from configs.errors import InvalidInput, UnknownName, WeirError, shown
from configs.scenario.scenario import load_scenario
from configs.yaml_loading import FILE_BYTES_MAX, parse_yaml

VALID = """
name: small
seconds: 10
networks:
  alarms:
    kind: queries
    queries:
      - name: warm
        reads: [readings]
        operators:
          - {kind: select, selectivity: 0.5, tuple_us: 10}
          - {kind: aggregate, range_s: 10, slide_s: 2, tuple_us: 5}
      - name: pairs
        reads: [readings, alerts]
        operators:
          - {kind: join, window_s: 1, selectivity: 0.1, tuple_us: 10}
classes:
  - name: gold
    priority: 6
    delay_target_ms: 300
    network: alarms
    streams:
      readings: {arrivals: {kind: constant, rate: 100}}
      alerts: {arrivals: {kind: steps, steps: [{at_s: 0, rate: 1}, {at_s: 5, rate: 2}]}}
  - name: bronze
    priority: 1
    delay_target_ms: 500
    policy: {kind: bsd, clusters: 12}
    network: alarms
    streams:
      readings: {arrivals: {kind: poisson, rate: 100}}
      alerts: {arrivals: {kind: trace, times_s: [1, 2, 4]}}
faults:
  - {kind: host_dies, name: gold, at_s: 2, down_s: 1}
"""

GONE = object()
PLACEHOLDER = "put here"
QUERY = "networks.alarms.queries[0]"
JOIN = "networks.alarms.queries[1]"
STREAMS = "classes[0].streams"
A_NAME = "a letter, then letters, digits, `_`, `.` or `-`; 63 characters at most"

# Each row has a field of the scenario, a wrong value for this field, and the error message after "scenario.yaml: ".
MISTAKES: list[tuple[str, object, str]] = [
    # networks of a single operator
    (
        "networks",
        {
            "alarms": {
                "kind": "operators",
                "operators": [
                    {"name": "a", "stream": "readings", "query": "q", "tuple_us": 1},
                    {"name": "b", "stream": "alerts", "query": "q", "tuple_us": 1, "weight": 2},
                ],
            }
        },
        "networks.alarms.operators[1].weight: several operators answer query q, but their weight differs "
        "(got 2)\n  hint: give all of these operators the same weight, or different query names",
    ),
    # stalls of a stream
    (
        f"{STREAMS}.readings",
        {
            "arrivals": {"kind": "constant", "rate": 100},
            "stalls": [{"at_s": 2, "for_s": 2}, {"at_s": 3, "for_s": 1}],
        },
        f"{STREAMS}.readings.stalls[1].at_s: each stall must begin after the previous stall, which ends at 4 s "
        "(got 3)\n  hint: list the stalls in rising order of at_s, or join the two stalls into a longer stall",
    ),
    (
        f"{STREAMS}.readings",
        {
            "arrivals": {"kind": "constant", "rate": 100},
            "stalls": [{"at_s": 2, "for_s": 2, "catch_up_rate": 90}],
        },
        f"{STREAMS}.readings.stalls[0].catch_up_rate: a producer catches up only at a rate above that of its arrivals, "
        "which is 100 (got 90)\n"
        "  hint: raise catch_up_rate, or leave it out: all collected tuples then arrive together",
    ),
    (
        f"{STREAMS}.readings",
        {
            "arrivals": {"kind": "constant", "rate": 100},
            "stalls": [{"at_s": 2, "for_s": 2, "collects": False, "catch_up_rate": 200}],
        },
        f"{STREAMS}.readings.stalls[0].catch_up_rate: a stall without collected tuples has nothing to catch up (got 200)\n"
        "  hint: leave out catch_up_rate, or set `collects: true`",
    ),
    (
        f"{STREAMS}.readings",
        {"arrivals": {"kind": "constant", "rate": 100}, "stalls": [{"at_s": 10, "for_s": 2}]},
        f"{STREAMS}.readings.stalls[0].at_s: the stall comes after the end of the run (got 10)\n"
        "  hint: choose a time below seconds = 10",
    ),
    # costs that change
    (
        f"{QUERY}.operators[0].cost_drift",
        [{"at_s": 2, "factor": 2, "ramp_s": 3}, {"at_s": 4, "factor": 1}],
        f"{QUERY}.operators[0].cost_drift[1].at_s: each cost step must come after the previous step, which ends at 5 s "
        "(got 4)\n  hint: list the steps in rising order of at_s, or shorten the previous ramp_s",
    ),
    (
        f"{QUERY}.cost_drift",
        [{"at_s": 2, "factor": 2}, {"at_s": 2, "factor": 1}],
        f"{QUERY}.cost_drift[1].at_s: each cost step must come after the previous step, which ends at 2 s "
        "(got 2)\n  hint: list the steps in rising order of at_s, or shorten the previous ramp_s",
    ),
    (
        f"{QUERY}.cost_drift",
        [{"at_s": 2, "factor": 0}],
        f"{QUERY}.cost_drift[0].factor: the value must be above 0 (got 0)\n"
        "  hint: give a number above 0 and at most 1000",
    ),
    # names of policies in a scenario
    (
        "claims",
        [{"metric": "staleness.mean", "policy": "fas:beta=3", "below": "hr", "by_pct": 20}],
        "claims[0].policy: fas:beta: the value must be at most 1 (got '3')\n  hint: give a number from 0 to 1; 1 if left out",
    ),
    (
        "claims",
        [{"metric": "staleness.mean", "policy": "hr", "below": "hnrr", "by_pct": 20}],
        "claims[0].below: there is no policy of this name (got 'hnrr')\n  hint: did you mean hnr?",
    ),
    # numbers outside of their range
    (
        f"{STREAMS}.readings.arrivals.rate",
        -5,
        f"{STREAMS}.readings.arrivals.rate: the value must be above 0 (got -5)\n  hint: give a number above 0",
    ),
    (
        f"{STREAMS}.readings.arrivals.rate",
        "many",
        f"{STREAMS}.readings.arrivals.rate: the value must be a number (got 'many')\n  hint: give a number above 0",
    ),
    (
        f"{STREAMS}.readings.arrivals.rate",
        None,
        f"{STREAMS}.readings.arrivals.rate: the key has no value\n  hint: give a number above 0",
    ),
    (
        f"{STREAMS}.readings.arrivals.rate",
        math.nan,
        f"{STREAMS}.readings.arrivals.rate: the value must be a finite number (got nan)\n  hint: give a number above 0",
    ),
    (
        "classes[0].delay_target_ms",
        math.inf,
        "classes[0].delay_target_ms: the value must be a finite number (got inf)\n  hint: give a number above 0",
    ),
    (
        "seconds",
        100_000,
        "seconds: the value must be at most 86400 (got 100000)\n  hint: give a number above 0 and at most 86400",
    ),
    (
        "classes[0].max_drop",
        1,
        "classes[0].max_drop: the value must be at most 0.95 (got 1)\n"
        "  hint: give a number from 0 to 0.95; 0.95 if left out",
    ),
    (
        f"{QUERY}.operators[0].selectivity",
        1.5,
        f"{QUERY}.operators[0].selectivity: the value must be at most 1 (got 1.5)\n  hint: give a number from 0 to 1",
    ),
    (
        "load",
        {"queue_fraction": 1},
        "load.queue_fraction: the value must be below 1 (got 1)\n"
        "  hint: give a number above 0 and below 1; 0.7 if left out",
    ),
    (
        "lanes",
        0,
        "lanes: the value must be at least 1 (got 0)\n  hint: give a whole number from 1 to 256; 1 if left out",
    ),
    (
        "seed",
        1.5,
        "seed: the value must be a whole number (got 1.5)\n  hint: give a whole number of at least 0; 1 if left out",
    ),
    (
        "classes[1].offered_load",
        0,
        "classes[1].offered_load: the value must be above 0 (got 0)\n  hint: give a number above 0",
    ),
    # values of a wrong type
    (
        "adaptive",
        "maybe",
        "adaptive: the value must be true or false (got 'maybe')\n  hint: give true or false; true if left out",
    ),
    (
        "description",
        5,
        "description: the value must be text (got 5)\n  hint: give text, in quotes if it looks like a number",
    ),
    (
        "name",
        "my scenario",
        f"name: this is not a valid name (got 'my scenario')\n  hint: give a name: {A_NAME}",
    ),
    ("name", 5, f"name: the value must be text (got 5)\n  hint: give a name: {A_NAME}"),
    (
        "networks",
        {"two words": {"kind": "sharaf"}},
        f"networks: this is not a valid name (got 'two words')\n  hint: {A_NAME}",
    ),
    (
        "networks",
        {},
        "networks: the value must not be empty (got {})\n  hint: give one name or more, each with its own keys under it",
    ),
    (
        "classes",
        [],
        "classes: the value must not be empty (got [])\n  hint: give a list, each entry after a `-`",
    ),
    (
        "classes",
        {"gold": 6},
        "classes: the value must be a list (got {'gold': 6})\n  hint: give a list, each entry after a `-`",
    ),
    (
        "classes[0]",
        "gold",
        "classes[0]: the value must hold keys and values (got 'gold')\n"
        "  hint: give keys and values: required are name, priority, delay_target_ms, network, streams",
    ),
    (
        "costs",
        7,
        "costs: the value must hold keys and values (got 7)\n  hint: give keys and values: "
        "possible are call_us, source_tuple_us, turn_us, decision_us, look_us, or leave it out",
    ),
    (
        f"{QUERY}.reads",
        ["a", "b", "c"],
        f"{QUERY}.reads: the value must have at most 2 entries (got ['a', 'b', 'c'])\n"
        "  hint: give a list, each entry after a `-`, at most 2 entries",
    ),
    # keys that are missing or unknown
    (
        "seconds",
        GONE,
        "seconds: a required value is missing\n  hint: add `seconds:` with a number above 0 and at most 86400",
    ),
    (
        "networks.alarms.queries",
        GONE,
        "networks.alarms.queries: a required value is missing\n"
        "  hint: add `queries:` with a list, each entry after a `-`",
    ),
    (
        "networks.alarms.kind",
        GONE,
        "networks.alarms.kind: a required value is missing\n  hint: add `kind:` with one of operators, queries, sharaf",
    ),
    ("secnods", 10, "secnods: unknown key (got 'secnods')\n  hint: did you mean seconds?"),
    (
        "classes[0].priorty",
        6,
        "classes[0].priorty: unknown key (got 'priorty')\n  hint: did you mean priority?",
    ),
    (
        f"{QUERY}.operators[0].cost_us",
        6,
        f"{QUERY}.operators[0].cost_us: unknown key (got 'cost_us')\n  hint: did you mean cost_drift or call_us or tuple_us?",
    ),
    (
        f"{STREAMS}.readings.arrivals.rte",
        6,
        f"{STREAMS}.readings.arrivals.rte: unknown key (got 'rte')\n  hint: did you mean rate?",
    ),
    (
        f"{STREAMS}.alerts.arrivals.rate",
        6,
        f"{STREAMS}.alerts.arrivals.rate: unknown key (got 'rate')\n  hint: known: kind, steps",
    ),
    (
        f"{STREAMS}.alerts.arrivals.steps[1].rte",
        6,
        f"{STREAMS}.alerts.arrivals.steps[1].rte: unknown key (got 'rte')\n  hint: did you mean rate?",
    ),
    (
        "networks.alarms.querys",
        [],
        "networks.alarms.querys: unknown key (got 'querys')\n  hint: did you mean queries?",
    ),
    (
        "networks.alarms",
        {"kind": "sharaf", "selectivity_mi": 0.1},
        "networks.alarms.selectivity_mi: unknown key (got 'selectivity_mi')\n"
        "  hint: did you mean selectivity_min?",
    ),
    # unknown kinds and choices
    (
        "classes[1].policy.kind",
        "bsdd",
        "classes[1].policy.kind: there is no kind of this name (got 'bsdd')\n  hint: did you mean bsd?",
    ),
    (
        "classes[1].policy",
        "hr",
        "classes[1].policy: the value must hold keys and values (got 'hr')\n  hint: write {kind: hr}",
    ),
    (
        "classes[1].policy",
        "fast",
        "classes[1].policy: the value must hold keys and values (got 'fast')\n  hint: give `kind:` and what that kind "
        f"needs; one of {', '.join(sorted(['auto', *POLICY_KINDS]))}",
    ),
    (
        "faults[0].kind",
        "host_die",
        "faults[0].kind: there is no kind of this name (got 'host_die')\n  hint: did you mean host_dies?",
    ),
    (
        "classes[0].victim",
        "oldset",
        "classes[0].victim: the value is not one of the allowed choices (got 'oldset')\n  hint: did you mean oldest?",
    ),
    # fields that contradict each other
    (
        "classes[1].name",
        "gold",
        "classes[1].name: two classes have the same name (got 'gold')\n  hint: rename one of the two classes",
    ),
    (
        "networks.alarms.queries[1].name",
        "warm",
        "networks.alarms.queries[1].name: two queries have the same name (got 'warm')\n  hint: rename one of the two queries",
    ),
    (
        "classes[1].min_share",
        0.5,
        "classes[1].min_share: min_share exceeds the class's original share (got 0.5)\n"
        "  hint: priority 1 gives 0.143: raise the priority or lower min_share",
    ),
    (
        "classes[0].network",
        "alarm",
        "classes[0].network: the scenario has no network of this name (got 'alarm')\n  hint: did you mean alarms?",
    ),
    (
        f"{STREAMS}.alerts",
        GONE,
        f"{STREAMS}: the network reads stream 'alerts', but the class has no input for it (got ['readings'])\n"
        "  hint: add `alerts:` with `arrivals:`",
    ),
    (
        f"{STREAMS}.alert",
        {"arrivals": {"kind": "constant", "rate": 1}},
        f"{STREAMS}.alert: the class has input for a stream that none of its queries reads\n  hint: did you mean alerts?",
    ),
    (
        f"{STREAMS}.alerts.arrivals.steps",
        [{"at_s": 0, "rate": 0}],
        f"{STREAMS}.alerts.arrivals: the mean arrival rate must be finite and above 0 (got 0)\n"
        "  hint: remove the stream, or give a rate above 0",
    ),
    (
        f"{STREAMS}.alerts.arrivals.steps[0].at_s",
        1,
        f"{STREAMS}.alerts.arrivals.steps[0].at_s: the first rate step must have at_s 0 (got 1)\n"
        "  hint: begin with `at_s: 0`, rate 0 if silent",
    ),
    (
        f"{STREAMS}.alerts.arrivals.steps",
        [{"at_s": 0, "rate": 1}, {"at_s": 5, "rate": 2}, {"at_s": 4, "rate": 1}],
        f"{STREAMS}.alerts.arrivals.steps[2].at_s: each rate step must come after the previous step, which is at 5 s (got 4)\n"
        "  hint: list the steps in rising order of at_s",
    ),
    (
        "classes[1].streams.alerts.arrivals.times_s[2]",
        1.5,
        "classes[1].streams.alerts.arrivals.times_s[2]: each time must not be earlier than the previous time, 2 (got 1.5)\n"
        "  hint: sort the times",
    ),
    (
        "classes[1].streams.alerts.arrivals",
        {"kind": "trace", "times_s": [0], "repeat": True},
        "classes[1].streams.alerts.arrivals.times_s: a trace that repeats must last longer than 0 s (got [0.0])\n"
        "  hint: end the trace with the time at which it starts again, or leave out repeat",
    ),
    (
        f"{QUERY}.operators[1].slide_s",
        20,
        f"{QUERY}.operators[1].slide_s: slide_s must not exceed range_s, which is 10: "
        "tuples between two windows would be in no window (got 20)\n  hint: lower slide_s or raise range_s",
    ),
    (
        f"{JOIN}.reads",
        ["readings"],
        f"{JOIN}.reads: query pairs joins, but reads only one stream (got ['readings'])\n"
        "  hint: name two streams, or use a lookup to join with a stored relation",
    ),
    (
        f"{QUERY}.reads",
        ["readings", "alerts"],
        f"{QUERY}.operators[0].kind: query warm reads two streams, but its first operator is not a join "
        "(got 'select')\n  hint: begin with a join, or write two queries",
    ),
    (
        f"{QUERY}.operators[1]",
        {"kind": "join", "window_s": 1, "selectivity": 0.1, "tuple_us": 1},
        f"{QUERY}.operators[1]: query warm has a join after another operator\n"
        "  hint: make the join the first operator",
    ),
    (
        "networks.alarms",
        {"kind": "sharaf", "selectivity_min": 0.5, "selectivity_max": 0.2},
        "networks.alarms.selectivity_min: selectivity_min must not exceed selectivity_max, which is 0.2 (got 0.5)\n"
        "  hint: lower selectivity_min or raise selectivity_max",
    ),
    (
        "faults[0].name",
        "gould",
        "faults[0].name: the scenario has no class of this name (got 'gould')\n  hint: did you mean gold?",
    ),
    (
        "faults[0].at_s",
        10,
        "faults[0].at_s: the fault comes after the end of the run (got 10)\n"
        "  hint: choose a time below seconds = 10",
    ),
]

# Each row has the text of a whole file, and the error message after "scenario.yaml: ".
NOT_A_SCENARIO: list[tuple[str, str]] = [
    ("", "the file is empty\n  hint: add the required keys: name, seconds, networks, classes"),
    (
        "- a\n- b",
        "the file must be a map of keys to values (got ['a', 'b'])\n"
        "  hint: add the required keys: name, seconds, networks, classes",
    ),
    (
        "classes: [gold, bronze",
        "line 1, column 23: the file is not valid YAML: expected ',' or ']', but got '<stream end>'\n"
        "  hint: close the bracket or the quote that this line opens",
    ),
    (
        "name: small\n\tseconds: 3",
        "line 2, column 1: the file is not valid YAML: found character '\\t' that cannot start any token\n"
        "  hint: indent with spaces, not with tabs",
    ),
    (
        "classes:\n - name: gold\n  priority: 3",
        "line 3, column 3: the file is not valid YAML: expected <block end>, but found '<block mapping start>'\n"
        "  hint: check indentation, brackets and quotes here and in the lines above",
    ),
    (
        "name: small\nseconds: 3\nname: large",
        "line 3, column 1: the file is not valid YAML: the key name is given twice\n  hint: keep one of the two entries",
    ),
    (
        "name: sm\0all",
        "the file is not valid YAML: unacceptable character #x0000: special characters are not allowed\n"
        "  hint: the file must be plain text without control characters",
    ),
    (
        "description: 2026-02-30",
        "the file contains a value out of range: day is out of range for month\n"
        "  hint: put the value in quotes if text is meant",
    ),
    (
        "[" * 3000,
        "the file is not valid YAML: its values are nested too deeply\n  hint: use at most about ten levels",
    ),
]


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def changed(where: str, value: object) -> str:
    """Return the valid scenario as YAML with one field changed, for example `classes[0].name`."""
    data: Any = copy.deepcopy(yaml.safe_load(VALID))
    *path, last = [
        int(part) if part.isdigit() else part for part in where.replace("[", ".").replace("]", "").split(".")
    ]
    node = data
    for part in path:
        node = node[part]
    if value is GONE:
        del node[last]
    else:
        node[last] = value
    return yaml.safe_dump(data)


def refusal(text: str | bytes) -> WeirError:
    Path("scenario.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInput) as caught:
        load_scenario("scenario.yaml")
    return caught.value


def test_the_scenario_from_which_invalid_scenarios_are_made_is_valid() -> None:
    Path("scenario.yaml").write_text(VALID)
    assert load_scenario("scenario.yaml").original_shares() == {"gold": 6 / 7, "bronze": 1 / 7}


@pytest.mark.parametrize(
    ("where", "value", "message"), MISTAKES, ids=[message.split("\n")[0] for *_, message in MISTAKES]
)
def test_a_mistake_in_a_scenario_is_reported_with_a_hint(where: str, value: object, message: str) -> None:
    assert str(refusal(changed(where, value))) == f"scenario.yaml: {message}"


@pytest.mark.parametrize(
    ("text", "message"), NOT_A_SCENARIO, ids=[message.split("\n")[0] for _, message in NOT_A_SCENARIO]
)
def test_a_file_that_is_not_a_scenario_is_refused(text: str, message: str) -> None:
    assert str(refusal(text)) == f"scenario.yaml: {message}"


def test_a_yaml_key_overrides_the_same_key_of_a_merged_mapping() -> None:
    text = "base: &base {a: 1, b: 2}\nlist:\n  - &deep {<<: *base, a: 3}\nlast: {<<: *deep, b: 4}\n"
    assert parse_yaml(text) == {
        "base": {"a": 1, "b": 2},
        "list": [{"a": 3, "b": 2}],
        "last": {"a": 3, "b": 4},
    }


def test_a_misspelt_key_is_reported_before_the_missing_key() -> None:
    text = changed("seconds", GONE) + "secnods: 10\n"
    assert str(refusal(text)) == (
        "scenario.yaml: secnods: unknown key (got 'secnods')\n  hint: did you mean seconds?"
    )


def test_a_file_that_is_not_text_is_refused() -> None:
    assert str(refusal(b"name: \xff")) == (
        "scenario.yaml: the file cannot be read: byte 7 is not UTF-8 text\n  hint: save the file as UTF-8"
    )


def test_a_huge_file_is_refused_by_its_size() -> None:
    assert str(refusal(b"#" * (FILE_BYTES_MAX + 1))) == (
        "scenario.yaml: the file has more than 10,000,000 bytes (got 10000001)\n"
        "  hint: give a settings file of at most 10 MB, not a file of data"
    )


def test_only_the_beginning_of_a_huge_value_is_rendered() -> None:
    rendered = []

    class Entry:
        def __repr__(self) -> str:
            rendered.append(self)
            return "entry"

    value = 1000 * [
        1000 * [Entry()]
    ]  # With YAML aliases, a value with a million entries is short in the file.
    assert shown(value) == "[[" + 10 * "entry, " + "...], " + "[…"
    assert len(rendered) == 100


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(InvalidInput) as caught:
        load_scenario("runs/scenario.yaml")
    assert str(caught.value) == (
        "runs/scenario.yaml: the file cannot be read: no such file or directory\n"
        "  hint: check the path and its permissions"
    )


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("dilo", "did you mean dilos?"),
        ("zzz", "known: dilos, overload"),
    ],
)
def test_an_unknown_preset_is_refused_with_the_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, hint: str
) -> None:
    for name in ("dilos", "overload"):
        (tmp_path / f"{name}.yaml").write_text(VALID)
    monkeypatch.setattr(configs.scenario.scenario_files, "PRESETS", tmp_path)
    with pytest.raises(UnknownName) as caught:
        load_scenario(source)
    assert str(caught.value) == (
        f"SCENARIO: there is no preset and no file of this name (got '{source}')\n  hint: give a preset's name or the path of a .yaml file; {hint}"
    )


def test_a_preset_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dilos.yaml").write_text(VALID)
    monkeypatch.setattr(configs.scenario.scenario_files, "PRESETS", tmp_path)
    assert load_scenario("dilos").name == "small"


def test_a_scenario_error_is_unchanged_after_pickling() -> None:
    error = refusal(changed("classes[0].network", "alarm"))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (UnknownName, str(error), vars(error))


def test_a_scenario_name_too_long_for_a_path_is_an_unknown_preset() -> None:
    with pytest.raises(UnknownName) as caught:
        load_scenario("z" * 5000)
    assert caught.value.title == "there is no preset and no file of this name"


def test_a_scenario_inherits_missing_fields_from_the_scenario_it_extends() -> None:
    Path("base.yaml").write_text(VALID)
    Path("longer.yaml").write_text("extends: base.yaml\nseconds: 60\ncosts: {call_us: 15}\n")
    base, longer = load_scenario("base.yaml"), load_scenario("longer.yaml")
    costs = base.costs.model_copy(update={"call_us": 15.0})
    assert longer == base.model_copy(update={"seconds": 60.0, "costs": costs})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "extends: [a, b]",
            "scenario.yaml: extends: `extends` must be the name of one scenario (got ['a', 'b'])\n"
            "  hint: give a preset's name or the path of a .yaml file",
        ),
        (
            "extends: overlaod-2x",
            "scenario.yaml: extends: there is no preset and no file of this name (got 'overlaod-2x')\n"
            "  hint: give a preset's name or the path of a .yaml file; did you mean overload-2x?",
        ),
        (
            "extends: gone.yaml",
            "gone.yaml: the file cannot be read: no such file or directory\n  hint: check the path and its permissions",
        ),
        (
            "extends: scenario.yaml",
            "scenario.yaml: extends: the scenario extends a chain of more than 5 scenarios (got 'scenario.yaml')\n"
            "  hint: check whether two scenarios extend each other; end the chain with a scenario without `extends`",
        ),
    ],
)
def test_an_invalid_value_of_extends_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "overload-2x.yaml").write_text(VALID)
    monkeypatch.setattr(configs.scenario.scenario_files, "PRESETS", tmp_path / "presets")
    assert str(refusal(text)) == message
