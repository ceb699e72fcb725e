"""What the project says of itself in several files is the same in each."""

import re
from pathlib import Path

import pytest
import yaml

import jax_upsample

ROOT = Path(__file__).parent.parent


def test_citation_is_of_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == jax_upsample.__version__
    assert citation["license"] == "Apache-2.0"
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


@pytest.mark.parametrize(
    "template",
    sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")),
    ids=lambda path: path.name,
)
def test_issue_templates_ask_for_the_report(template):
    form = yaml.safe_load(template.read_text())
    assert {"name", "description", "body"} <= form.keys()
    labels = [field["attributes"]["label"] for field in form["body"]]
    assert any("python -m jax_upsample" in label for label in labels)


def test_public_names_are_documented():
    """Each is in the API reference, the modules' too."""
    reference = (ROOT / "docs/api.md").read_text()
    names = [n for n in vars(jax_upsample) if not n.startswith("_")]
    assert len(names) > 10
    for name in names:
        if name in ("nnx", "linen", "equinox"):
            assert f"automodule:: jax_upsample.{name}" in reference
        else:
            assert re.search(rf"auto(function|class):: {name}$", reference, re.M), name
