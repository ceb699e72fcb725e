"""Times `upsample_nearest` and its transpose against what JAX and PyTorch have.

    python benchmarks/upsample_nearest.py --output results.json

Peers: `jax.image.resize`, `jnp.repeat`, broadcast and reshape (the plain form of this
package, the honest baseline), `torch.nn.functional.interpolate` where PyTorch is
installed, and the probe. Every JAX result is checked before it is timed. How, and what
the figures and the probe are, harness.py says.
"""

import dataclasses
from typing import Any

import harness
import jax
import jax.numpy as jnp

import jax_upsample


@dataclasses.dataclass(frozen=True)
class Case(harness.Case):
    """A small array and its integer upsampling."""

    scale: int | tuple[int, int] = 2

    @property
    def scales(self) -> tuple[int, ...]:
        """One for each axis."""
        one = not isinstance(self.scale, tuple)
        return (self.scale,) * len(self.axes) if one else self.scale  # type: ignore

    @property
    def resized(self) -> tuple[int, ...]:
        """The shape of the large array."""
        by_axis = dict(zip(self.axes, self.scales, strict=True))
        return tuple(n * by_axis.get(a, 1) for a, n in enumerate(self.shape))

    def __str__(self) -> str:
        scale = "" if self.scale == 2 else f" x{self.scale}".replace(" ", "")
        return super().__str__() + (f" {scale}" if scale else "")


CASES = (
    Case((1, 512, 512, 256), "NHWC", "bfloat16"),  # SD-like VAE decoder
    Case((4, 64, 64, 512), "NHWC", "bfloat16"),
    Case((4, 128, 128, 512), "NHWC", "bfloat16"),
    Case((8, 32, 32, 640), "NHWC", "bfloat16"),  # SD U-Net
    Case((8, 8, 8, 1280), "NHWC", "bfloat16"),
    Case((16, 128, 128, 128), "NHWC", "float32"),  # segmentation U-Net
    Case((16, 128, 128, 128), "NCHW", "float32"),
    Case((16, 128, 128, 128), "NCHW", "bfloat16"),
    Case((8, 256, 52, 84), "NCHW", "float32"),  # FPN
    Case((8, 256, 100, 168), "NCHW", "float32"),
    Case((16, 256, 40, 40), "NCHW", "bfloat16"),  # YOLO neck
    Case((8, 512, 512, 256), "NHWC", "float32"),
    Case((8, 256, 512, 512), "NCHW", "float32"),
    Case((16, 128, 128, 3), "NHWC", "float32"),  # images
    Case((32, 3, 256, 256), "NCHW", "float32"),  # StyleGAN's skips
    Case((8, 1, 1024, 1024), "NCHW", "uint8"),  # label maps
    Case((16, 128, 128, 128), "NHWC", "float16"),
    Case((16, 65536, 64), "NWC", "bfloat16"),  # sound
    Case((16, 64, 65536), "NCW", "bfloat16"),
    Case((2, 32, 64, 64, 128), "NDHWC", "bfloat16"),  # volumes
    Case((2, 128, 32, 64, 64), "NCDHW", "float32"),
    Case((16, 256, 25, 25), "NCHW", "bfloat16"),  # odd rows
    Case((16, 128, 128, 128), "NHWC", "bfloat16", 3),
    Case((16, 128, 128, 128), "NCHW", "bfloat16", 3),
    Case((16, 128, 128, 128), "NCHW", "float32", 4),
    Case((16, 128, 128, 128), "NCHW", "bfloat16", (1, 2)),
    Case((16, 64, 64, 128), "NHWC", "bfloat16", 8),
    Case((16, 128, 1, 1), "NCHW", "float32", 512),
    Case((16, 1, 1, 2048), "NHWC", "bfloat16", 64),
    Case((1, 1, 1, 64), "NHWC", "bfloat16", 512),
    Case((1, 3, 1, 1), "NCHW", "float32", 512),
)
QUICK = (
    Case((1, 16, 16, 32), "NHWC", "float32"),
    Case((1, 4, 15, 15), "NCHW", "float32"),
    Case((1, 1, 8, 8), "NCHW", "uint8"),
    Case((1, 16, 8), "NWC", "bfloat16", 3),
)


def forms(case: Case) -> dict[str, harness.Function]:
    """The forward of each JAX peer, by name; each transposes into its backward."""

    def repeat(x: jax.Array) -> jax.Array:
        for axis, scale in zip(case.axes, case.scales, strict=True):
            x = jnp.repeat(x, scale, axis)
        return x

    def ours(implementation: Any) -> harness.Function:
        return lambda x: jax_upsample.upsample_nearest(
            x, case.scale, axes=case.axes, implementation=implementation
        )

    return {
        "resize": lambda x: jax.image.resize(x, case.resized, "nearest"),
        "repeat": repeat,
        "broadcast": ours("xla"),
        "kernel": ours("kernel"),
        "default": ours(None),
    }


def interpolate(x: Any, case: Case) -> Any:
    """The forward of PyTorch."""
    import torch

    return torch.nn.functional.interpolate(x, scale_factor=case.scale, mode="nearest")


if __name__ == "__main__":
    description = (__doc__ or "").split("\n")[0]
    harness.run(description, CASES, QUICK, forms, "broadcast", interpolate)
