"""Which input a nearest resize copies to which output: every rule, once, as a table.

m is the size of the input, n that of the output, i an output index; f32() rounds to
float32, and a float32 result is clamped to m - 1. Under every rule n = m is a copy.

- "jax": what `jax.image.resize` of the installed jax does under jit. Its source
  (jax/image/scale.py) says floor((i + 0.5) * m / n) in float32, but XLA turns division
  by a constant into multiplication by its reciprocal. Up to jax 0.11.2 it then merges
  the two constants, floor(f32((i + 0.5) * f32(m * f32(1 / n)))); from 0.12.0.1 it does
  not, floor(f32(f32((i + 0.5) * m) * f32(1 / n))). 10 -> 25 tells them apart. Which it
  is is tried, once; if it is neither, jax itself makes each table.
- "half_pixel": floor((i + 1/2) m / n), exactly: jax and Pillow without their rounding.
- "asymmetric": floor(i m / n), exactly: torch "nearest" without its rounding.
- "torch": floor(f32(i s)), s = f32(f32(m) / f32(n)). ATen/native/UpSample.h:
  nearest_neighbor_compute_source_index, compute_scales_value.
- "torch_exact": floor(f32(f32(i + 0.5) s)), the same s. There:
  nearest_neighbor_exact_compute_source_index.

With a scale the sizes do not matter: m / n becomes 1 / scale. It is
s = f32(1.0 / scale), divided in float64, for the two of torch. For the exact rules an
int or a Fraction is what it is, a float the decimal that it prints as: 1.6 is 8/5.
"torch" is i // 2 where n = 2 m also if the scale is not 2, as nearest_idx of UpSample.h
has it for CPUs (on CUDA it is not). A copy for n = m is our rule for "torch_exact",
which in torch drops inputs: 3 -> 3 by 1.3 is 0, 1, 1. "jax" knows no scales.
"""

import functools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Rule = Literal["jax", "half_pixel", "asymmetric", "torch", "torch_exact"]
RULES: tuple[Rule, ...] = get_args(Rule)
Scale = int | float | Fraction

_Table = np.ndarray[tuple[int], np.dtype[np.int32]]

MAX_TABLE = 2**31 - 1  # entries, and what they index: they are int32
_MAX_CACHED = 2**16  # entries; longer tables are made anew and freed after use


def is_exact(rule: str) -> bool:
    """Whether the rule is its formula in integers, with nothing rounded."""
    return rule in ("half_pixel", "asymmetric")


def output_size(in_size: int, scale: Scale) -> int:
    """floor(in_size * scale): in float64 for a float, as torch does, else exactly."""
    return math.floor(in_size * scale)


def index_table(
    rule: str, in_size: int, out_size: int, scale: Scale | None = None
) -> _Table:
    """The input index of each output index, `(out_size,)`: it never decreases."""
    if out_size <= _MAX_CACHED:
        return _cached_index_table(rule, in_size, out_size, scale)
    return _make_index_table(rule, in_size, out_size, scale)


def first_output_table(
    rule: str, in_size: int, out_size: int, scale: Scale | None = None
) -> _Table:
    """The first output index whose input index is k or above, `(in_size + 1,)`.

    So input k goes to the outputs [table[k], table[k + 1]), which may be none.
    """
    if max(in_size, out_size) <= _MAX_CACHED:
        return _cached_first_output_table(rule, in_size, out_size, scale)
    return _make_first_output_table(rule, in_size, out_size, scale)


@functools.lru_cache(1024, typed=True)
def is_repeat(
    rule: str, in_size: int, out_size: int, scale: Scale | None = None
) -> bool:
    """Whether every input goes to equally many outputs: the index is i // k, k >= 1."""
    if out_size == in_size or (in_size == 1 and out_size > 0):
        return True
    if not 0 < in_size < out_size or out_size % in_size != 0:
        return False
    factor = out_size // in_size
    if is_exact(rule) and (scale is None or _fraction(scale) == factor):
        return True
    if out_size > MAX_TABLE:
        return False  # as far as a table can tell
    rows = index_table(rule, in_size, out_size, scale).reshape(in_size, factor)
    return bool(np.all(rows == np.arange(in_size)[:, None]))


# ------------------------------------------------------------------------ on the host


def _make_index_table(
    rule: str, in_size: int, out_size: int, scale: Scale | None
) -> _Table:
    _check(rule, scale)
    if in_size == 0 and out_size > 0:
        raise ValueError(f"there is no index into 0 inputs for {out_size} outputs")
    table: Any
    if out_size == in_size:
        table = np.arange(out_size)
    elif out_size == 0:
        table = np.zeros(0)
    elif rule == "jax":
        formula = _jax_formula()
        if formula is None:
            (table,) = _run_jax([(in_size, out_size)])
        else:
            table = formula(in_size, out_size)
    elif is_exact(rule):
        half = rule == "half_pixel"
        table = _exact(out_size, half, *_exact_step(in_size, out_size, scale))
    elif rule == "torch" and out_size == 2 * in_size:
        table = np.arange(out_size) // 2
    else:
        step = np.float32(in_size) / np.float32(out_size)
        if scale is not None:
            step = np.float32(1.0 / float(scale))
        table = (_float_range(out_size) + np.float32(_offset(rule))) * step
    # Positive: to convert is to round down. float32 may hold in_size itself.
    table = np.minimum(table.astype(np.int64), in_size - 1).astype(np.int32)
    table.flags.writeable = False
    return table


def _make_first_output_table(
    rule: str, in_size: int, out_size: int, scale: Scale | None
) -> _Table:
    table = np.zeros(in_size + 1, np.int32)
    indices = index_table(rule, in_size, out_size, scale)
    np.cumsum(np.bincount(indices, minlength=in_size), out=table[1:])
    table.flags.writeable = False
    return table


# typed: the float 0.1 equals Fraction(0.1), but means 1/10.
_cached_index_table = functools.lru_cache(256, typed=True)(_make_index_table)
_cached_first_output_table = functools.lru_cache(256, typed=True)(
    _make_first_output_table
)


def _check(rule: str, scale: Scale | None) -> None:
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}, got {rule!r}")
    if rule == "jax" and scale is not None:
        raise ValueError(f'rule "jax" has no scale, got {scale!r}')


def _offset(rule: str) -> float:
    return 0.0 if rule == "torch" else 0.5


def _fraction(scale: Scale) -> Fraction:
    return Fraction(repr(float(scale)) if isinstance(scale, float) else scale)


def _exact_step(in_size: int, out_size: int, scale: Scale | None) -> tuple[int, int]:
    step = Fraction(in_size, out_size) if scale is None else 1 / _fraction(scale)
    return step.numerator, step.denominator


def _exact(count: int, half: bool, numerator: int, denominator: int) -> Any:
    """floor((i + 1/2) numerator / denominator), or without the 1/2."""
    # floor(floor(x) / d) is floor(x / d): half the numerator may be rounded down.
    start = numerator // 2 if half else 0
    if count * numerator < 2**63:
        return (np.arange(count) * numerator + start) // denominator
    values = ((i * numerator + start) // denominator for i in range(count))
    return np.fromiter(values, np.int64, count)


def _float_range(count: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.arange(count).astype(np.float32)  # rounded, beyond 2^24


# ------------------------------------------------------------------- the installed jax

_Formula = Callable[[int, int], Any]


def _jax_merged(in_size: int, out_size: int) -> Any:
    step = np.float32(in_size) * (np.float32(1) / np.float32(out_size))
    return (_float_range(out_size) + np.float32(0.5)) * step


def _jax_in_order(in_size: int, out_size: int) -> Any:
    reciprocal = np.float32(1) / np.float32(out_size)
    numerators = (_float_range(out_size) + np.float32(0.5)) * np.float32(in_size)
    return numerators * reciprocal


# Between them they tell apart the formulas, true division and the exact rule.
_PROBES = ((10, 25), (10, 55), (22, 55))


@functools.cache
def _jax_formula() -> _Formula | None:
    """The formula of the installed jax; None if it is neither."""
    seen = _run_jax(_PROBES)
    for formula in (_jax_in_order, _jax_merged):
        tables = [formula(*sizes).astype(np.int32) for sizes in _PROBES]
        if all(map(np.array_equal, tables, seen)):
            return formula
    return None


def _run_jax(pairs: Sequence[tuple[int, int]]) -> list[Any]:
    """What jax.image.resize makes of a vector of indices, for each pair of sizes."""

    # The sizes are constants: else, as without jit, there are no reciprocals.
    def program(vectors: list[Any]) -> list[Any]:
        return [
            jax.image.resize(vector, (out_size,), "nearest")
            for vector, (_, out_size) in zip(vectors, pairs, strict=True)
        ]

    def run() -> list[Any]:
        vectors = [np.arange(in_size, dtype=np.int32) for in_size, _ in pairs]
        with jax.disable_jit(False), jax.transfer_guard("allow"):
            return [np.asarray(table) for table in jax.jit(program)(vectors)]

    # The caller may be in a trace, under a mesh, or in jax.ensure_compile_time_eval(),
    # which divides at once, without XLA. All of these are of a thread.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


# ------------------------------------------------------------------------ in the graph


def traced_index_table(
    rule: str, in_size: Any, out_size: Any, scale: Scale | None = None
) -> jax.Array:
    """`index_table` of symbolic sizes, each below 2^24.

    "jax" is what jax makes of them, which divides truly, as the sizes are no constants.
    """
    _check(rule, scale)
    if scale is not None:
        raise ValueError(
            f"scale must be None where sizes are symbolic ({in_size} -> {out_size}), "
            f"got {scale!r}"
        )
    if rule == "jax":
        indices = jnp.arange(in_size, dtype=jnp.int32)
        return jax.image.resize(indices, (out_size,), "nearest")
    i = jnp.arange(out_size, dtype=jnp.int32)
    m = jnp.asarray(in_size).astype(jnp.int32)
    n = jnp.asarray(out_size).astype(jnp.int32)
    if is_exact(rule):
        table = _traced_exact(i, m, n, rule == "half_pixel")
    else:
        step = _traced_quotient(m.astype(jnp.uint32), n.astype(jnp.uint32))
        offset = np.float32(_offset(rule))
        table = jnp.floor((i.astype(jnp.float32) + offset) * step).astype(jnp.int32)
    return jnp.clip(table, 0, m - 1)


def traced_first_output_table(
    rule: str, in_size: Any, out_size: Any, scale: Scale | None = None
) -> jax.Array:
    """`first_output_table` of symbolic sizes."""
    inputs = jnp.arange(in_size + 1, dtype=jnp.int32)
    table = traced_index_table(rule, in_size, out_size, scale)
    table = jnp.append(table, inputs[-1:])  # JAX takes nothing from what may be empty

    # jnp.searchsorted compares all with all, or needs the size to know when to end.
    def bisect(_: Any, bounds: tuple[jax.Array, jax.Array]) -> Any:
        low, high = bounds
        middle = (low + high) // 2
        below = (low < high) & (table.at[middle].get(mode="clip") < inputs)
        return jnp.where(below, middle + 1, low), jnp.where(below, high, middle)

    end = jnp.asarray(out_size).astype(jnp.int32)
    bounds = (jnp.zeros_like(inputs), jnp.full_like(inputs, end))
    low, _ = lax.fori_loop(0, 25, bisect, bounds)
    return low


# Products of sizes need 48 bits, which there are not without x64. But both forms know
# a float32 estimate that is wrong by little, and then what is left fits in 32 bits, in
# which the products may wrap around. XLA's quotient is no more than an estimate: for
# constants it is a product, and on GPUs it is not rounded correctly.


def _traced_exact(i: jax.Array, m: jax.Array, n: jax.Array, half: bool) -> jax.Array:
    """(i m + start) // n as `_exact` has it."""
    step = m.astype(jnp.float32) / n.astype(jnp.float32)
    estimate = (i.astype(jnp.float32) * step).astype(jnp.int32)
    rest = i * m - estimate * n  # below n (m / 2^21 + 2) in size
    return estimate + (rest + m // 2 if half else rest) // n


def _traced_quotient(m: jax.Array, n: jax.Array) -> jax.Array:
    """f32(m / n), correctly rounded, of two uint32 below 2^24."""
    estimate = m.astype(jnp.float32) / n.astype(jnp.float32)
    bits = lax.bitcast_convert_type(estimate, jnp.uint32)
    # Three places more than float32 has, and a start that is too low by 4 to 12 ulp if
    # the estimate is off by 4 at the most.
    places = 153 - (bits >> 23)
    quotient = ((bits & 0x7FFFFF | 0x800000) - 8) << 3
    rest = lax.shift_left(m, places) - quotient * n
    quotient, rest = quotient + rest // n, rest % n
    sticky = (rest != 0).astype(jnp.uint32)
    power = lax.bitcast_convert_type((127 - places) << 23, jnp.float32)
    return (quotient | sticky).astype(jnp.float32) * power
