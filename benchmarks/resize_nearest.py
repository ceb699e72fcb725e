"""Times `resize_nearest` and its transpose against what JAX and PyTorch have.

    python benchmarks/resize_nearest.py --output results.json

Peers: `jax.image.resize`, whose result all JAX forms must equal, the plain form of this
package ("xla"), its kernel and its default, `torch.nn.functional.interpolate` where
PyTorch is installed ("nearest-exact": other roundings, the same memory), and the probe.
What the figures and the probe are, harness.py says. The probe moves the whole operand;
a forward that shrinks has no need of all of it, so it may be faster than the probe.
"""

import dataclasses
from typing import Any

import harness
import jax

import jax_upsample


@dataclasses.dataclass(frozen=True)
class Case(harness.Case):
    """An array and the sizes of its spatial axes after the resize."""

    sizes: tuple[int, ...]

    @property
    def resized(self) -> tuple[int, ...]:
        """The shape of the result."""
        by_axis = dict(zip(self.axes, self.sizes, strict=True))
        return tuple(by_axis.get(a, n) for a, n in enumerate(self.shape))

    def __str__(self) -> str:
        return f"{super().__str__()} -> {'x'.join(map(str, self.sizes))}"


def both_dtypes(
    shape: tuple[int, ...], layout: str, sizes: tuple[int, ...]
) -> tuple[Case, ...]:
    """The case in float32 and in bfloat16."""
    return tuple(Case(shape, layout, d, sizes) for d in ("float32", "bfloat16"))


CASES = (
    *both_dtypes((8, 64, 64, 256), "NHWC", (96, 96)),  # x1.5
    *both_dtypes((8, 256, 64, 64), "NCHW", (96, 96)),
    *both_dtypes((16, 25, 25, 256), "NHWC", (38, 38)),
    *both_dtypes((16, 256, 25, 25), "NCHW", (38, 38)),
    *both_dtypes((8, 128, 128, 256), "NHWC", (96, 96)),  # smaller
    *both_dtypes((8, 256, 128, 128), "NCHW", (96, 96)),
    *both_dtypes((2, 32, 32, 32, 64), "NDHWC", (64, 64, 64)),
    *both_dtypes((2, 64, 32, 32, 32), "NCDHW", (64, 64, 64)),
    *both_dtypes((2, 32, 32, 32, 64), "NDHWC", (48, 48, 48)),
    *both_dtypes((2, 64, 32, 32, 32), "NCDHW", (48, 48, 48)),
    Case((8, 43, 43, 256), "NHWC", "bfloat16", (85, 85)),  # FPN
    Case((8, 256, 43, 43), "NCHW", "float32", (85, 85)),
    Case((4, 513, 513, 1), "NHWC", "uint8", (1024, 1024)),  # label maps
    Case((4, 1, 513, 513), "NCHW", "uint8", (1024, 1024)),
)
QUICK = (
    Case((1, 16, 16, 32), "NHWC", "float32", (24, 24)),
    Case((1, 4, 15, 15), "NCHW", "bfloat16", (11, 23)),
    Case((1, 3, 5, 7, 8), "NDHWC", "float32", (5, 8, 7)),
    Case((1, 33, 33, 1), "NHWC", "uint8", (64, 64)),
)


def forms(case: Case) -> dict[str, harness.Function]:
    """The forward of each JAX peer, by name; each transposes into its backward."""

    def ours(implementation: Any) -> harness.Function:
        return lambda x: jax_upsample.resize_nearest(
            x, case.resized, implementation=implementation
        )

    return {
        "resize": lambda x: jax.image.resize(x, case.resized, "nearest"),
        "xla": ours("xla"),
        "kernel": ours("kernel"),
        "default": ours(None),
    }


def interpolate(x: Any, case: Case) -> Any:
    """The forward of PyTorch."""
    import torch

    return torch.nn.functional.interpolate(x, size=case.sizes, mode="nearest-exact")


if __name__ == "__main__":
    description = (__doc__ or "").split("\n")[0]
    harness.run(description, CASES, QUICK, forms, "resize", interpolate)
