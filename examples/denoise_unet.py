"""Trains a Flax U-Net to remove noise from photographs, upsampling included.

    pip install '.[examples]'
    python examples/denoise_unet.py

The photographs are those that scikit-image ships in its wheel; nothing is downloaded.
Three are for training, two others for validation. Gaussian noise of a known standard
deviation is added; the U-Net must beat the classical answer, non-local means, whose
strength is tuned on the training photographs. A picture of clean, noisy, non-local
means and U-Net is written at the end. On a GPU the upsampling runs the CUDA kernels.
"""

import argparse
import dataclasses
import itertools
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from flax import nnx
from optax.contrib import MuonDimensionNumbers, muon
from PIL import Image, ImageDraw, ImageFont
from skimage.metrics import peak_signal_noise_ratio
from skimage.restoration import denoise_nl_means
from tqdm import tqdm

from jax_upsample import upsample_nearest

Photo = npt.NDArray[np.float32]  # height, width, RGB in [0, 1]

TRAINING = ("astronaut.png", "motorcycle_left.png", "rocket.jpg")
VALIDATION = ("chelsea.png", "coffee.png")
NOISE = 25 / 255  # standard deviation
WIDTHS = (16, 32, 64)  # channels at full, half and quarter resolution
CROP = 32  # pixels on a side while training
TARGET = "jax_upsample_nearest_fwd_v1"  # what a compiled program calls, if it does


def load_photo(name: str) -> Photo:
    """A photograph of scikit-image's wheel, cut to whole pixels at every resolution."""
    file = resources.files("skimage") / "data" / name
    if not file.is_file():
        raise FileNotFoundError(f"this scikit-image ships no {name} in its wheel")
    with resources.as_file(file) as path:
        pixels = np.asarray(Image.open(path).convert("RGB"), np.float32)
    photo = pixels / np.float32(255)
    multiple = 2 ** (len(WIDTHS) - 1)
    height, width = (n // multiple * multiple for n in photo.shape[:2])
    return photo[:height, :width]


def add_noise(photo: Photo, seed: int) -> Photo:
    """The photograph with its noise, the same in every run."""
    deviates = np.random.default_rng(seed).standard_normal(photo.shape)
    return (photo + NOISE * deviates).astype(np.float32)


def psnr(clean: Photo, estimate: Photo) -> float:
    """Peak signal to noise ratio in dB, of what a screen would show."""
    return float(
        peak_signal_noise_ratio(clean, np.clip(estimate, 0, 1), data_range=1.0)
    )


class Block(nnx.Module):
    """Two convolutions."""

    def __init__(self, channels_in: int, channels_out: int, *, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(channels_in, channels_out, (3, 3), rngs=rngs)
        self.second = nnx.Conv(channels_out, channels_out, (3, 3), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """(N, H, W, channels_in) to (N, H, W, channels_out)."""
        return nnx.gelu(self.second(nnx.gelu(self.first(x))))


class UNet(nnx.Module):
    """Estimates the noise on three resolutions and subtracts it."""

    def __init__(self, implementation: Any, *, rngs: nnx.Rngs) -> None:
        self.implementation = implementation
        wider = list(itertools.pairwise(WIDTHS))
        self.enter = Block(3, WIDTHS[0], rngs=rngs)
        self.down = nnx.List([Block(low, high, rngs=rngs) for low, high in wider])
        self.up = nnx.List([Block(low + high, low, rngs=rngs) for low, high in wider])
        self.leave = nnx.Conv(WIDTHS[0], 3, (3, 3), rngs=rngs)

    def __call__(self, noisy: jax.Array) -> jax.Array:
        """(N, H, W, 3), noisy to clean; H and W multiples of 4."""
        skips = [self.enter(noisy - 0.5)]
        for block in self.down:
            skips.append(block(nnx.max_pool(skips[-1], (2, 2), (2, 2))))
        x = skips.pop()
        for block in reversed(self.up):
            x = upsample_nearest(x, 2, implementation=self.implementation)
            x = block(jnp.concatenate([x, skips.pop()], axis=-1))
        return noisy - self.leave(x)


@nnx.jit
def train_step(
    model: UNet, optimizer: nnx.Optimizer[UNet], clean: jax.Array, key: jax.Array
) -> jax.Array:
    """One step on freshly drawn noise; the mean squared error before it."""
    noisy = clean + NOISE * jax.random.normal(key, clean.shape)

    def loss(model: UNet) -> jax.Array:
        return jnp.square(model(noisy) - clean).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


@nnx.jit
def denoise(model: UNet, noisy: jax.Array) -> jax.Array:
    """The model, compiled."""
    return model(noisy)


def random_crops(
    photos: Sequence[Photo], count: int, rng: np.random.Generator
) -> Photo:
    """(count, CROP, CROP, 3), each turned, mirrored and recoloured at random."""
    crops = []
    for photo in (photos[i] for i in rng.integers(len(photos), size=count)):
        top, left = (rng.integers(n - CROP + 1) for n in photo.shape[:2])
        crop = np.rot90(photo[top : top + CROP, left : left + CROP], rng.integers(4))
        crop = crop[:: rng.choice([1, -1])]
        crops.append(crop[:, :, rng.permutation(3)])
    return np.stack(crops)


def muon_dimensions(parameters: Any) -> Any:
    """Which axes of a kernel Muon orthogonalises; biases are left to Adam."""
    kernel = MuonDimensionNumbers(reduction_axis=(0, 1, 2), output_axis=3)
    return jax.tree.map(lambda p: kernel if p.ndim == 4 else None, parameters)


def train(model: UNet, photos: Sequence[Photo], options: argparse.Namespace) -> None:
    """Muon with a warm-up and a cosine decay."""
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, 5e-3, options.steps // 20, options.steps
    )
    optimizer = nnx.Optimizer(
        model,
        # Muon learns in a minute what takes Adam several.
        muon(
            schedule,
            muon_weight_dimension_numbers=muon_dimensions,
            consistent_rms=0.2,
        ),
        wrt=nnx.Param,
    )
    rng = np.random.default_rng(options.seed)
    key = jax.random.key(options.seed)
    with tqdm(range(options.steps), desc="training", unit="step") as steps:
        for step in steps:
            clean = jnp.asarray(random_crops(photos, options.batch_size, rng))
            error = train_step(model, optimizer, clean, jax.random.fold_in(key, step))
            if step % 25 == 0:
                steps.set_postfix(psnr=f"{-10 * np.log10(float(error)):.2f} dB")


def non_local_means(noisy: Photo, strength: float) -> Photo:
    """The classical estimate; it knows the standard deviation of the noise."""
    estimate: Photo = denoise_nl_means(
        noisy,
        patch_size=5,
        patch_distance=6,
        h=strength * NOISE,
        sigma=NOISE,
        fast_mode=True,
        channel_axis=-1,
    )
    return estimate


def tune_non_local_means(photos: Sequence[Photo]) -> float:
    """The strength that is best on a cut of every training photograph."""
    cuts = [photo[100:260, 100:260] for photo in photos]
    noisy = [add_noise(cut, seed=1) for cut in cuts]

    def mean_psnr(strength: float) -> float:
        estimates = [non_local_means(cut, strength) for cut in noisy]
        return float(np.mean([psnr(*p) for p in zip(cuts, estimates, strict=True)]))

    return max((0.3, 0.4, 0.5, 0.6, 0.7, 0.8), key=mean_psnr)


def draw(rows: Sequence[dict[str, Photo]], path: Path, side: int = 256) -> None:
    """A row a photograph, its middle cut out, each column labelled with its PSNR."""
    font = ImageFont.load_default(size=15)
    margin, label = 8, 24
    columns = len(rows[0])
    sheet = Image.new(
        "RGB",
        (columns * (side + margin) + margin, len(rows) * (side + label + margin)),
        "white",
    )
    pen = ImageDraw.Draw(sheet)
    for row, photos in enumerate(rows):
        for column, (name, photo) in enumerate(photos.items()):
            left = margin + column * (side + margin)
            top = row * (side + label + margin)
            text = name
            if name != "clean":
                text += f", {psnr(photos['clean'], photo):.2f} dB"
            pen.text((left, top + 4), text, fill="black", font=font)
            y, x = ((n - side) // 2 for n in photo.shape[:2])
            cut = np.clip(photo[y : y + side, x : x + side], 0, 1)
            pixels = Image.fromarray((cut * 255).round().astype(np.uint8))
            sheet.paste(pixels, (left, top + label))
    sheet.save(path)


def upsampling_form(model: UNet) -> str:
    """What the compiled model upsamples with, as its program says."""
    program = denoise.lower(model, jnp.zeros((1, CROP, CROP, 3))).as_text()
    if TARGET not in program:
        return "plain XLA"
    return "CUDA kernels" if jax.default_backend() == "gpu" else "host kernels"


@dataclasses.dataclass(frozen=True)
class Figures:
    """Mean PSNR in dB over the validation photographs, and how they came about."""

    noisy: float
    non_local_means: float
    unet: float
    upsampling: str
    seconds: float


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--implementation", choices=("auto", "kernel", "xla"), default="auto"
    )
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("denoise_unet.png"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> Figures:
    """Trains, validates, prints the figures and writes the picture."""
    start = time.perf_counter()
    options = parse(arguments)
    implementation = {"auto": None}.get(options.implementation, options.implementation)
    training = [load_photo(name) for name in TRAINING]
    model = UNet(implementation, rngs=nnx.Rngs(options.seed))
    device = jax.devices()[0]
    upsampling = upsampling_form(model)
    print(f"jax {jax.__version__} on {device.device_kind}; upsampling by {upsampling}")

    train(model, training, options)
    strength = tune_non_local_means(training)
    rows = []
    for seed, name in enumerate(tqdm(VALIDATION, desc="validation", unit="photo")):
        clean = load_photo(name)
        noisy = add_noise(clean, seed)
        rows.append(
            {
                "clean": clean,
                "noisy": noisy,
                "non-local means": non_local_means(noisy, strength),
                "U-Net": np.asarray(denoise(model, jnp.asarray(noisy)[None])[0]),
            }
        )
    draw(rows, options.output)
    mean = {
        name: float(np.mean([psnr(row["clean"], row[name]) for row in rows]))
        for name in ("noisy", "non-local means", "U-Net")
    }
    for name, value in mean.items():
        print(f"{name:16}{value:6.2f} dB")
    figures = Figures(
        noisy=mean["noisy"],
        non_local_means=mean["non-local means"],
        unet=mean["U-Net"],
        upsampling=upsampling,
        seconds=time.perf_counter() - start,
    )
    print(f"{figures.seconds:.0f} seconds; picture in {options.output}")
    return figures


if __name__ == "__main__":
    main()
