"""What the benchmarks share: cases, clocks, checks, tables, the command line.

Every JAX form is checked right before it is timed. On an NVIDIA GPU the figures are
kernel times by CUPTI (PyTorch's by CUDA events), elsewhere wall times: medians, in
microseconds. Reads and writes count once each in TB/s.

The peer "probe" is the roofline: a kernel that reads the bytes of the operand and
writes the bytes of the result, linearly and with nothing else to do
(cuda/stream_probe.h). It runs in the same way as the rest: calls one after another on
the same operand, which the L2 cache therefore holds, in part, if it is small.
"""

import argparse
import dataclasses
import datetime
import importlib.metadata
import importlib.util
import json
import math
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from tqdm import tqdm

import jax_upsample

Function = Callable[..., Any]
Row = dict[str, Any]
Clock = Callable[[Function, Any, int], list[float]]  # function, operand, iterations

DIRECTIONS = ("forward", "backward")


@dataclasses.dataclass(frozen=True)
class Case:
    """An array and its resizing; the layout names the axes, as in NCHW."""

    shape: tuple[int, ...]
    layout: str
    dtype: str

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes."""
        return tuple(axis for axis, name in enumerate(self.layout) if name in "DHW")

    @property
    def resized(self) -> tuple[int, ...]:
        """The shape of the result."""
        raise NotImplementedError

    @property
    def bytes(self) -> int:
        """Both arrays once."""
        elements = math.prod(self.shape) + math.prod(self.resized)
        return elements * jnp.dtype(self.dtype).itemsize

    @property
    def differentiable(self) -> bool:
        """Whether there is a backward: integers have none."""
        return jnp.issubdtype(jnp.dtype(self.dtype), jnp.inexact)

    def __str__(self) -> str:
        return f"{self.layout} {'x'.join(map(str, self.shape))} {self.dtype}"


T = TypeVar("T")
CaseT = TypeVar("CaseT", bound=Case)


# Of a case: the forward of each JAX peer, by name. Each transposes into its backward.
Forms = Callable[[CaseT], dict[str, Function]]


# ------------------------------------------------------------------- steps and checks


def step(forward: Function, argnums: int | Sequence[int] = 0) -> Function:
    """Value and gradients of the mean square, summed over the arrays of a result."""

    def loss(*operands: Any) -> jax.Array:
        arrays = jax.tree.leaves(forward(*operands))
        squares = (jnp.mean(jnp.square(y.astype(jnp.float32))) for y in arrays)
        return sum(squares, jnp.zeros(()))

    return jax.value_and_grad(loss, argnums)


def close(actual: Any, expected: Any, tolerance: float) -> bool:
    """Whether all arrays together are, to the tolerance of their norm."""

    def norm(arrays: Any) -> float:
        leaves = (leaf.astype(jnp.float32) for leaf in jax.tree.leaves(arrays))
        return float(sum(jnp.vdot(leaf, leaf) for leaf in leaves)) ** 0.5

    error = jax.tree.map(lambda a, b: a - b, actual, expected)
    return norm(error) <= tolerance * norm(expected)


# ------------------------------------------------------------------------------ clocks


def kernel_times(function: Function, operand: Any, iterations: int) -> list[float]:
    """Microseconds of GPU kernels in each of `iterations` calls."""
    from jax.experimental.mosaic.gpu import profiler

    _, milliseconds = profiler.measure(function, iterations=iterations)(operand)
    return [1e3 * t for t in milliseconds or ()]


def wall_times(function: Function, operand: Any, iterations: int) -> list[float]:
    """Microseconds from call to result."""
    jax.block_until_ready(function(operand))
    times = []
    for _ in range(iterations):
        start = time.perf_counter()
        jax.block_until_ready(function(operand))
        times.append(1e6 * (time.perf_counter() - start))
    return times


def times() -> Clock:
    """The clock of the default backend's JAX forms."""
    return kernel_times if jax.default_backend() == "gpu" else wall_times


def event_times(function: Function, iterations: int) -> list[float]:
    """Microseconds between CUDA events of PyTorch around each call."""
    import torch

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


# ------------------------------------------------------------------------------- peers


def random(shape: tuple[int, ...], dtype: str) -> jax.Array:
    """Small integers: every sum of a window is exact in float32."""
    integers = jax.random.randint(jax.random.key(0), shape, -3, 4)
    return jax.block_until_ready(integers.astype(dtype))


def probe(shape: tuple[int, ...], dtype: str) -> Function:
    """Reads its operand and writes as many bytes as an array of `shape` has."""
    result = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
    return jax.jit(jax.ffi.ffi_call("jax_upsample_stream_probe_v1", result))


def jax_rows(
    case: CaseT, iterations: int, forms: Forms[CaseT], reference: str
) -> Iterator[Row]:
    """Checks and times each JAX peer and the probe, in both directions.

    The form `reference` says what is right: itself forward, its transpose in float32,
    rounded once, backward.
    """
    clock = times()
    x = random(case.shape, case.dtype)
    x_like = jax.ShapeDtypeStruct(case.shape, jnp.dtype(case.dtype))
    right_form = forms(case)[reference]
    y = jax.jit(right_form)(x)
    if case.differentiable:
        g = random(case.resized, case.dtype)
        wide_like = jax.ShapeDtypeStruct(case.shape, jnp.float32)
        wide = jax.linear_transpose(right_form, wide_like)
        x_bar = jax.jit(lambda g: wide(g.astype(jnp.float32))[0].astype(case.dtype))(g)
    for name, form in forms(case).items():
        directions = {"forward": (jax.jit(form), x, y)}
        if case.differentiable:
            transpose = jax.linear_transpose(form, x_like)
            down = jax.jit(lambda g, t=transpose: t(g)[0])
            directions["backward"] = (down, g, x_bar)
        for direction, (function, operand, expected) in directions.items():
            result = function(operand)
            same_type = (result.shape, result.dtype) == (expected.shape, expected.dtype)
            right = same_type and bool((result == expected).all())
            del result
            row = {"form": name, "direction": direction, "right": right}
            yield row | {"us": clock(function, operand, iterations)}
    row = {"form": "probe", "right": None}
    us = clock(probe(case.resized, case.dtype), x, iterations)
    yield row | {"direction": "forward", "us": us}
    if case.differentiable:
        us = clock(probe(case.shape, case.dtype), g, iterations)
        yield row | {"direction": "backward", "us": us}


def torch_rows(
    case: CaseT, iterations: int, interpolate: Callable[[Any, CaseT], Any]
) -> Iterator[Row]:
    """Times PyTorch on the GPU, its channels-last format where the channels are last.

    `interpolate(x, case)` takes x in PyTorch's order of axes, NC..., for any format.
    """
    import torch

    order = [case.layout.index(name) for name in "NCDHW" if name in case.layout]
    shape = tuple(case.shape[axis] for axis in order)
    dtype = getattr(torch, case.dtype)
    x = torch.randint(0, 4, shape, device="cuda", dtype=dtype)
    if case.layout.endswith("C"):
        two_d = len(shape) == 4
        channels_last = torch.channels_last if two_d else torch.channels_last_3d
        x = x.to(memory_format=channels_last)
    x.requires_grad_(case.differentiable)
    up = torch.no_grad()(lambda: interpolate(x, case))

    def backward() -> Function:
        y = interpolate(x, case)
        g = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, x, g, retain_graph=True)

    directions: dict[str, Callable[[], Function]] = {"forward": lambda: up}
    if case.differentiable:
        directions["backward"] = backward
    for direction, make in directions.items():
        row = {"form": "torch", "direction": direction, "right": None}
        try:
            yield row | {"us": event_times(make(), iterations)}
        except RuntimeError as error:  # its backward refuses 2^31 elements
            yield row | {"us": [], "error": str(error).splitlines()[0]}
    torch.cuda.empty_cache()


# ------------------------------------------------------------------------------ report


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    device = jax.devices()[0]
    facts = {
        "device": device.device_kind,
        "platform": device.client.platform_version.replace("\n", " "),
    }
    if jax.default_backend() == "gpu" and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        facts["driver"] = subprocess.check_output(query, text=True).split()[0]
    facts["jax_upsample"] = jax_upsample.__version__
    for package in ("jax", "jaxlib", "torch"):
        if importlib.util.find_spec(package) is not None:
            facts[package] = importlib.metadata.version(package)
    facts["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    return facts


def table(results: list[Row], direction: str) -> Iterator[str]:
    """Markdown lines, a case a line; a wrong result is marked.

    After the times: what the kernel moves, the part of the probe's speed that it has,
    and how many times as fast as `jax.image.resize` it is.
    """
    results = [row for row in results if row["direction"] == direction]
    peers = list(dict.fromkeys(row["form"] for row in results))
    ratios = ("kernel TB/s", "of probe", "vs resize")
    yield f"| {direction}, us | " + " | ".join([*peers, *ratios]) + " |"
    yield "| --- |" + " ---: |" * (len(peers) + len(ratios))
    for case in dict.fromkeys(row["case"] for row in results):
        rows = {row["form"]: row for row in results if row["case"] == case}
        cells = []
        for peer in peers:
            mark = " wrong" if rows[peer]["right"] is False else ""
            us = rows[peer]["median_us"]
            cells.append("refused" if us is None else f"{us:.1f}{mark}")
        kernel = rows["kernel"]["median_us"]
        cells += [
            f"{rows['kernel']['bytes'] / kernel / 1e6:.2f}",
            f"{rows['probe']['median_us'] / kernel:.0%}",
            f"{rows['resize']['median_us'] / kernel:.2f}",
        ]
        yield f"| {case} | " + " | ".join(cells) + " |"


def report(results: list[Row]) -> Iterator[str]:
    """A table for each direction."""
    clock = "kernel times" if jax.default_backend() == "gpu" else "wall times"
    for direction in DIRECTIONS:
        yield from ("", f"{clock}, medians", "", *table(results, direction))


def of_case(case: Any, row: Row) -> Row:
    """A row of a case's results, complete: named, and with its median if it has one."""
    median = statistics.median(row["us"]) if row["us"] else None
    return {"case": str(case), **row, "median_us": median}


# ------------------------------------------------------------------------ command line


def command_line(description: str, iterations: int) -> argparse.Namespace:
    """The options of every benchmark: `output`, `quick` and `iterations`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--output", type=Path, help="JSON file to write, the tables next to it in .md"
    )
    parser.add_argument("--quick", action="store_true", help="a few small cases")
    parser.add_argument("--iterations", type=int, default=iterations)
    return parser.parse_args()


def publish(
    results: list[Row],
    report: Callable[[list[Row]], Iterator[str]],
    output: Path | None,
) -> None:
    """Prints the machine and the report; writes them and the JSON to `output`."""
    on = machine()
    lines = [*(f"{name}: {value}  " for name, value in on.items()), *report(results)]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if output:
        output.write_text(json.dumps({"machine": on, "results": results}, indent=1))
        output.with_suffix(".md").write_text(text)


def run_rows(
    description: str,
    cases: Sequence[T],
    quick: Sequence[T],
    rows: Callable[[T, int], Iterator[Row]],
    report: Callable[[list[Row]], Iterator[str]],
    iterations: int,
) -> None:
    """Runs the cases of a benchmark that times and reports by itself.

    Args:
      description: what `--help` says.
      cases: the cases.
      quick: the cases of `--quick`.
      rows: (case, iterations) -> the results of a case, but for what `of_case` adds.
      report: the results as lines.
      iterations: of each timing, unless the command line says otherwise.
    """
    arguments = command_line(description, iterations)
    results = [
        of_case(case, row)
        for case in tqdm(quick if arguments.quick else cases)
        for row in rows(case, arguments.iterations)
    ]
    publish(results, report, arguments.output)


def run(
    description: str,
    cases: Sequence[CaseT],
    quick: Sequence[CaseT],
    forms: Forms[CaseT],
    reference: str,
    interpolate: Callable[[Any, CaseT], Any],
) -> None:
    """Runs the cases, prints the tables, writes them and the JSON.

    Args:
      description: what `--help` says.
      cases: the cases.
      quick: the cases of `--quick`.
      forms: the JAX peers of a case, among them "kernel" and "resize".
      reference: the one of them that the others must equal.
      interpolate: the same in PyTorch; see `torch_rows`.
    """
    arguments = command_line(description, iterations=10)
    with_torch = (
        jax.default_backend() == "gpu" and importlib.util.find_spec("torch") is not None
    )
    results: list[Row] = []
    for case in tqdm(quick if arguments.quick else cases):
        # The calls in flight keep their results: no more than 40 GB of them.
        iterations = max(3, min(arguments.iterations, int(40e9 / case.bytes)))
        rows = list(jax_rows(case, iterations, forms, reference))
        if with_torch:
            rows += torch_rows(case, iterations, interpolate)
        results += [of_case(case, {"bytes": case.bytes} | row) for row in rows]
    publish(results, report, arguments.output)
