"""Times `upsample_nearest` and its transpose against what JAX and PyTorch have.

    python benchmarks/upsample_nearest.py --output results.json

Peers: `jax.image.resize`, `jnp.repeat`, broadcast and reshape (the plain form of this
package, the honest baseline), and `torch.nn.functional.interpolate` where PyTorch is
installed. Every result is checked before it is timed. On an NVIDIA GPU the figures are
kernel times by CUPTI (PyTorch's by CUDA events), elsewhere wall times: medians, in
microseconds. Reads and writes count once each in TB/s.
"""

import argparse
import dataclasses
import datetime
import importlib.util
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from tqdm import tqdm

import jax_upsample

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """A small array and its integer upsampling."""

    shape: tuple[int, ...]
    layout: str
    dtype: str
    scale: int | tuple[int, int] = 2

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes."""
        return (2, 3) if self.layout == "NCHW" else (1, 2)

    @property
    def large(self) -> tuple[int, ...]:
        """The shape of the large array."""
        scales = self.scale if isinstance(self.scale, tuple) else (self.scale,) * 2
        by_axis = dict(zip(self.axes, scales, strict=True))
        return tuple(n * by_axis.get(a, 1) for a, n in enumerate(self.shape))

    @property
    def bytes(self) -> int:
        """Both arrays once."""
        elements = math.prod(self.shape) + math.prod(self.large)
        return elements * jnp.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        scale = "" if self.scale == 2 else f" x{self.scale}".replace(" ", "")
        return f"{self.layout} {shape} {self.dtype}{' ' + scale if scale else ''}"


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
)


def forms(case: Case) -> dict[str, Function]:
    """The forward of each JAX peer, by name; each transposes into its backward."""
    scales = case.scale if isinstance(case.scale, tuple) else (case.scale,) * 2

    def repeat(x: jax.Array) -> jax.Array:
        for axis, scale in zip(case.axes, scales, strict=True):
            x = jnp.repeat(x, scale, axis)
        return x

    def ours(implementation: Any) -> Function:
        return lambda x: jax_upsample.upsample_nearest(
            x, case.scale, axes=case.axes, implementation=implementation
        )

    return {
        "resize": lambda x: jax.image.resize(x, case.large, "nearest"),
        "repeat": repeat,
        "broadcast": ours("xla"),
        "kernel": ours("kernel"),
        "default": ours(None),
    }


def kernel_times(
    function: Function, operand: jax.Array, iterations: int
) -> list[float]:
    """Microseconds of GPU kernels in each of `iterations` calls."""
    from jax.experimental.mosaic.gpu import profiler

    _, milliseconds = profiler.measure(function, iterations=iterations)(operand)
    return [1e3 * t for t in milliseconds or ()]


def wall_times(function: Function, operand: jax.Array, iterations: int) -> list[float]:
    """Microseconds from call to result."""
    jax.block_until_ready(function(operand))
    times = []
    for _ in range(iterations):
        start = time.perf_counter()
        jax.block_until_ready(function(operand))
        times.append(1e6 * (time.perf_counter() - start))
    return times


def random(shape: tuple[int, ...], dtype: str) -> jax.Array:
    """Small integers: every sum of a window is exact in float32."""
    integers = jax.random.randint(jax.random.key(0), shape, -3, 4)
    return jax.block_until_ready(integers.astype(dtype))


def jax_rows(case: Case, iterations: int) -> Iterator[dict[str, Any]]:
    """Checks and times each JAX peer in both directions."""
    times = kernel_times if jax.default_backend() == "gpu" else wall_times
    x = random(case.shape, case.dtype)
    g = random(case.large, case.dtype)
    up = jax.jit(forms(case)["broadcast"])
    x_like = jax.ShapeDtypeStruct(case.shape, jnp.dtype(case.dtype))
    wide_like = jax.ShapeDtypeStruct(case.shape, jnp.float32)
    wide = jax.linear_transpose(forms(case)["broadcast"], wide_like)
    down = jax.jit(lambda g: wide(g.astype(jnp.float32))[0].astype(case.dtype))
    for name, form in forms(case).items():
        transpose = jax.linear_transpose(form, x_like)
        directions = {
            "forward": (jax.jit(form), x, up),
            "backward": (jax.jit(lambda g, t=transpose: t(g)[0]), g, down),
        }
        for direction, (function, operand, reference) in directions.items():
            right = bool((function(operand) == reference(operand)).all())
            row = {"peer": name, "direction": direction, "right": right}
            yield row | {"us": times(function, operand, iterations)}


def torch_rows(case: Case, iterations: int) -> Iterator[dict[str, Any]]:
    """Times PyTorch on the GPU, channels_last for NHWC."""
    import torch

    dtype = getattr(torch, case.dtype)
    nchw = (
        case.shape
        if case.layout == "NCHW"
        else tuple(case.shape[i] for i in (0, 3, 1, 2))
    )
    x = torch.randn(nchw, device="cuda", dtype=dtype, requires_grad=True)
    if case.layout == "NHWC":
        x = x.detach().to(memory_format=torch.channels_last).requires_grad_()

    def events(function: Function) -> list[float]:
        function()
        times = []
        for _ in range(iterations):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            function()
            end.record()
            torch.cuda.synchronize()
            times.append(1e3 * start.elapsed_time(end))
        return times

    def up() -> torch.Tensor:
        return torch.nn.functional.interpolate(
            x, scale_factor=case.scale, mode="nearest"
        )

    y = up()
    g = torch.randn_like(y)
    directions: dict[str, Function] = {
        "forward": torch.no_grad()(up),
        "backward": lambda: torch.autograd.grad(y, x, g, retain_graph=True),
    }
    for direction, function in directions.items():
        row = {"peer": "torch", "direction": direction, "right": None}
        try:
            yield row | {"us": events(function)}
        except RuntimeError as error:  # its backward refuses 2^31 elements
            yield row | {"us": [], "error": str(error).splitlines()[0]}
    torch.cuda.empty_cache()


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    device = jax.devices()[0]
    return {
        "device": device.device_kind,
        "platform": device.client.platform_version.replace("\n", " "),
        "jax": jax.__version__,
        "jax_upsample": jax_upsample.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def table(results: list[dict[str, Any]], direction: str) -> Iterator[str]:
    """Markdown lines, a case a line; a wrong result is marked."""
    peers = list(dict.fromkeys(row["peer"] for row in results))
    yield f"| {direction}, us | " + " | ".join(peers) + " | kernel TB/s |"
    yield "| --- |" + " ---: |" * (len(peers) + 1)
    for case in dict.fromkeys(row["case"] for row in results):
        cells = []
        for peer in peers:
            (row,) = (
                row
                for row in results
                if (row["case"], row["peer"], row["direction"])
                == (case, peer, direction)
            )
            mark = " wrong" if row["right"] is False else ""
            cells.append(f"{row['median_us']:.1f}{mark}" if row["us"] else "refused")
            if peer == "kernel":
                rate = row["bytes"] / row["median_us"] / 1e6
        yield f"| {case} | " + " | ".join(cells) + f" | {rate:.2f} |"


def main() -> None:
    """Runs the cases, prints the tables, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--quick", action="store_true", help="two small cases")
    parser.add_argument("--iterations", type=int, default=10)
    arguments = parser.parse_args()
    with_torch = (
        jax.default_backend() == "gpu" and importlib.util.find_spec("torch") is not None
    )
    results = []
    for case in tqdm(QUICK if arguments.quick else CASES):
        # The calls in flight keep their results: no more than 40 GB of them.
        iterations = max(3, min(arguments.iterations, int(40e9 / case.bytes)))
        rows = list(jax_rows(case, iterations))
        if with_torch:
            rows += torch_rows(case, iterations)
        for row in rows:
            median = statistics.median(row["us"]) if row["us"] else None
            results.append(
                {"case": str(case), "bytes": case.bytes, "median_us": median} | row
            )
    clock = "kernel times" if jax.default_backend() == "gpu" else "wall times"
    print(*(f"{name}: {value}" for name, value in machine().items()), sep="\n")
    for direction in ("forward", "backward"):
        print(f"\n{clock}, medians")
        print(*table(results, direction), sep="\n")
    if arguments.output:
        arguments.output.write_text(
            json.dumps({"machine": machine(), "results": results}, indent=1)
        )


if __name__ == "__main__":
    main()
