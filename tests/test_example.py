"""The examples, run short: the one that the README shows, and on several devices."""

import functools
import importlib.util
import math
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from PIL import Image

EXAMPLE = Path(__file__).parent.parent / "examples" / "denoise_unet.py"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("denoise_unet", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A user runs it with JAX's default settings.
    with (
        jax.enable_x64(False),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        yield module


def run(example, tmp_path, *options):
    picture = tmp_path / "picture.png"
    few = ("--steps", "60", "--batch-size", "4", "--output", str(picture))
    figures = example.main([*few, *options])
    with Image.open(picture) as image:
        assert image.size[0] > 4 * 256
    return figures


def test_a_few_steps_beat_the_noise(example, tmp_path):
    figures = run(example, tmp_path)
    assert 20 < figures.noisy < 21.5
    assert figures.unet > figures.noisy + 2
    assert 29 < figures.non_local_means < 31
    on_gpu = jax.default_backend() == "gpu"
    assert figures.upsampling == ("CUDA kernels" if on_gpu else "plain XLA")


def test_kernel_and_xla_give_one_figure(example, tmp_path, kernel):
    """Whichever form upsamples, training goes the same way."""
    by_kernel = run(example, tmp_path, "--implementation", kernel)
    by_xla = run(example, tmp_path, "--implementation", "xla")
    assert by_kernel.upsampling.endswith("kernels")
    assert by_xla.upsampling == "plain XLA"
    assert math.isclose(by_kernel.unet, by_xla.unet, abs_tol=0.05)


def test_photographs_of_training_and_validation_differ(example):
    assert not set(example.TRAINING) & set(example.VALIDATION)


@functools.cache
def losses(*options):
    """What examples/sharded_training.py prints."""
    program = EXAMPLE.with_name("sharded_training.py")
    finished = subprocess.run(
        [sys.executable, program, "--steps", "3", *options],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return [float(loss) for loss in re.findall(r" loss (\S+)", finished.stdout)]


@pytest.mark.parametrize("shard", ["batch", "rows"])
def test_several_processes_train_like_one_device(shard, kernel):
    """Two processes of four CPU devices each, by the collectives of the runtime."""
    alone = losses("--processes", "1", "--devices", "1")
    by = ("--shard", shard, "--implementation", kernel)
    together = losses("--processes", "2", "--devices", "4", *by)
    assert len(alone) == len(together) == 3
    for one, all_eight in zip(alone, together, strict=True):
        assert math.isclose(one, all_eight, rel_tol=1e-5)
