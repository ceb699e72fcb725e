"""What the guides and the docstrings show runs, and prints what they say."""

import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parent.parent
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = (
    "_launch_plan",
    "_patch",
    "_pixel_shuffle",
    "_resize",
    "_resize_nearest",
    "_upsample_conv",
    "_upsample_join",
    "_upsample_nearest",
    "equinox",
    "linen",
    "nnx",
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def default_settings() -> Iterator[None]:
    # A reader runs them with JAX's default settings.
    with (
        jax.enable_x64(False),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


def run(test: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner()
    report: list[str] = []
    failed, attempted = runner.run(test, out=report.append, clear_globs=False)
    assert attempted > 0
    assert failed == 0, "".join(report)


def test_there_are_guides() -> None:
    assert len(GUIDES) > 2


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_guide(guide: Path) -> None:
    """The blocks of a guide, in order and in one namespace."""
    text = guide.read_text(encoding="utf-8")
    assert ">>>" not in BLOCK.sub("", text), "an example outside of a python block"
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        code, line = block[1], text.count("\n", 0, block.start(1))
        if ">>>" in code:
            parser = doctest.DocTestParser()
            test = parser.get_doctest(code, names, guide.name, str(guide), line)
            test.globs = names  # not the copy: later blocks use what this one defines
            run(test)
        else:
            exec(compile("\n" * line + code, str(guide), "exec"), names)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(f"jax_upsample.{name}")
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert tests
    for test in tests:
        run(test)
