"""The benchmarks run, find what is wrong, and stand behind the figures shown."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
RESULTS = BENCHMARKS / "results" / "h200"


@pytest.fixture
def benchmark(monkeypatch):
    """A function that imports a module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)

    def load(name):
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        # Where the others find it too, and only for this test: the names are common.
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_quick_run_of_everything(tmp_path, kernel):
    """`python benchmarks --quick`: every form right, a table and a picture of each."""
    program = [sys.executable, BENCHMARKS, "--quick", "--output", tmp_path]
    # What is timed matters here, not how fast it is.
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
    quick = os.environ | {"XLA_FLAGS": flags}
    ran = subprocess.run(program, capture_output=True, text=True, env=quick)
    assert ran.returncode == 0, ran.stderr[-3000:]
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    names -= {"__main__", "harness", "plots"}
    assert {path.stem for path in tmp_path.glob("*.json")} == names
    for name in names:
        data = json.loads((tmp_path / f"{name}.json").read_text())
        assert {"device", "jax", "jaxlib", "date"} <= set(data["machine"])
        rows = data["results"]
        assert rows
        for row in rows:
            assert row["right"] is not False, row
            assert row["median_us"] is None or row["median_us"] > 0
        text = (tmp_path / f"{name}.md").read_text()
        for row in rows:
            assert row["case"] in text
    drawn = {path.stem for path in tmp_path.glob("*.svg")}
    assert drawn == names - {"compile_time"} | {"overview"}


def test_a_wrong_form_is_marked(benchmark):
    """A peer that gives other values is timed, and its figure says so."""
    module, harness = benchmark("upsample_nearest"), benchmark("harness")
    case = module.Case((1, 4, 4, 8), "NHWC", "float32")

    def forms(case):
        right = module.forms(case)
        return right | {"repeat": lambda x: 1.001 * right["repeat"](x)}

    rows = [
        row | {"case": str(case), "bytes": case.bytes, "median_us": 1.0}
        for row in harness.jax_rows(case, 2, forms, "broadcast")
    ]
    wrong = {(row["form"], row["direction"]) for row in rows if row["right"] is False}
    assert wrong == {("repeat", "forward"), ("repeat", "backward")}
    *_, line = harness.table(rows, "forward")
    assert line.count("wrong") == 1


def test_close_tells_a_small_error_from_a_large_one(benchmark):
    close = benchmark("harness").close
    x = jnp.linspace(-1, 1, 100, dtype=jnp.float32)
    assert close(x * 1.0001, x, 1e-3)
    assert not close(x * 1.01, x, 1e-3)


def test_speeds_are_relative_to_the_best_plain_form(benchmark):
    rows = [
        {"case": "a", "direction": "forward", "form": form, "median_us": us}
        for form, us in {"resize": 8, "repeat": 4, "kernel": 1, "default": 2}.items()
    ]
    assert benchmark("plots").speeds(rows, "forward") == {
        "a": {"resize": 0.5, "ours": 2.0}
    }


@pytest.mark.parametrize("name", ["upsample_join", "upsample_conv", "models"])
def test_tables_are_those_of_the_measurements(benchmark, name):
    """The Markdown that is shown is what the JSON beside it says."""
    data = json.loads((RESULTS / f"{name}.json").read_text())
    lines = list(benchmark(name).report(data["results"]))
    assert (RESULTS / f"{name}.md").read_text().endswith("\n".join(lines) + "\n")


def test_pictures_are_those_of_the_measurements(benchmark, tmp_path):
    for path in RESULTS.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    drawn = {path.name for path in benchmark("plots").draw(tmp_path)}
    assert drawn == {path.name for path in RESULTS.glob("*.svg")}


def test_the_readme_shows_what_was_measured():
    """Each row of its table is a case of the results, to a hundredth."""
    results = json.loads((RESULTS / "upsample_nearest.json").read_text())["results"]
    text = (ROOT / "README.md").read_text()
    rows = re.findall(
        r"^\| (forward|gradient), (bf16|f32) (\w+) (\S+) \|(.*)\|$", text, re.MULTILINE
    )
    assert len(rows) >= 8
    dtypes = {"bf16": "bfloat16", "f32": "float32"}
    for direction, dtype, layout, shape, cells in rows:
        us = {
            row["form"]: row["median_us"]
            for row in results
            if row["case"] == f"{layout} {shape} {dtypes[dtype]}"
            and row["direction"] == direction.replace("gradient", "backward")
        }
        plain = min(us[form] for form in ("resize", "repeat", "broadcast"))
        expected = [us["resize"], plain, us["torch"], us["default"]]
        for cell, value in zip(cells.split("|"), expected, strict=True):
            assert float(cell) == pytest.approx(value, rel=0.01, abs=0.051), shape
