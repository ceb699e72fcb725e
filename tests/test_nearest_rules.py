"""The rules of nearest resizing, against the libraries that they are named after."""

import functools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import skip_or_fail
from jax import export

from jax_upsample import _nearest_rules
from jax_upsample._nearest_rules import (
    RULES,
    first_output_table,
    index_table,
    is_repeat,
    output_size,
    traced_first_output_table,
    traced_index_table,
)

IN_SIZES = range(1, 131)
OUT_SIZES = range(1, 261)
PAIRS = [(m, n) for m in IN_SIZES for n in OUT_SIZES]

SCALES = (
    *(0.1, 0.33, 0.5, 0.7, 0.9, 1.1, 1.2, 1.3, 1.5, 1.6, 1.75, 1.999, 2.0, 2.05, 2.3),
    *(2.4, 2.5, 2.7, 3.0, 3.3, 4.0, 4.7, 7.3, 41.0),
)

f32 = np.float32


def f32_range(n: int, offset: float) -> np.ndarray:
    return np.arange(n, dtype=f32) + f32(offset)


def to_index(values: np.ndarray, m: int) -> np.ndarray:
    return np.minimum(np.floor(values), m - 1).astype(np.int64)


def clear_caches() -> None:
    for name in ("_jax_formula", "_cached_index_table", "_cached_first_output_table"):
        getattr(_nearest_rules, name).cache_clear()
    is_repeat.cache_clear()


@pytest.fixture
def no_caches() -> Iterator[None]:
    clear_caches()
    yield
    clear_caches()


# ----------------------------------------------------------------------------- tables


@pytest.mark.parametrize("rule", RULES)
def test_table(rule: str) -> None:
    for m, n in PAIRS:
        table = index_table(rule, m, n)
        assert table.dtype == np.int32
        assert table.shape == (n,)
        assert not table.flags.writeable
        assert table[0] >= 0
        assert table[-1] < m
        assert np.all(table[1:] >= table[:-1])


@pytest.mark.parametrize("rule", RULES)
def test_first_outputs_are_the_transpose(rule: str) -> None:
    for m, n in PAIRS:
        indices, first = index_table(rule, m, n), first_output_table(rule, m, n)
        assert first.dtype == np.int32
        assert first.shape == (m + 1,)
        assert not first.flags.writeable
        assert first[0] == 0
        assert first[-1] == n
        np.testing.assert_array_equal(np.diff(first), np.bincount(indices, minlength=m))


@pytest.mark.parametrize("rule", RULES)
def test_same_size_is_a_copy(rule: str) -> None:
    for m in (*IN_SIZES, 100_003):
        np.testing.assert_array_equal(index_table(rule, m, m), np.arange(m))
        assert is_repeat(rule, m, m)
        for scale in () if rule == "jax" else (1.001, Fraction(1001, 1000)):
            np.testing.assert_array_equal(index_table(rule, m, m, scale), np.arange(m))


@pytest.mark.parametrize("rule", RULES)
def test_empty(rule: str) -> None:
    assert index_table(rule, 5, 0).shape == (0,)
    assert index_table(rule, 0, 0).shape == (0,)
    assert first_output_table(rule, 5, 0).tolist() == [0] * 6
    assert first_output_table(rule, 0, 0).tolist() == [0]
    assert not is_repeat(rule, 5, 0)
    assert is_repeat(rule, 0, 0)
    with pytest.raises(ValueError, match="0 inputs for 3 outputs"):
        index_table(rule, 0, 3)


@pytest.mark.parametrize("rule", RULES)
def test_is_repeat(rule: str) -> None:
    for m, n in PAIRS:
        repeats = n % m == 0
        if repeats and m != n:
            expected = np.repeat(np.arange(m), n // m)
            repeats = np.array_equal(index_table(rule, m, n), expected)
        assert is_repeat(rule, m, n) == repeats
        if rule in ("half_pixel", "asymmetric"):
            assert repeats == (n % m == 0)


def test_is_repeat_by_scale() -> None:
    assert is_repeat("half_pixel", 5, 15, 3)
    assert is_repeat("asymmetric", 5, 15, 3.0)
    assert is_repeat("torch", 5, 15, 3)
    # 15 outputs, but not by threes: 3 / 3.19 < 1, and 9.5 / 3.19 < 3.
    assert output_size(5, 3.19) == 15
    assert not is_repeat("asymmetric", 5, 15, 3.19)
    assert not is_repeat("half_pixel", 5, 15, Fraction(319, 100))


@pytest.mark.parametrize("rule", RULES)
def test_long_repeats_need_no_table(rule: str) -> None:
    assert is_repeat(rule, 1, 2**40)
    assert is_repeat(rule, 2**31, 2**32) == (rule in ("half_pixel", "asymmetric"))


@pytest.mark.parametrize("table", [index_table, traced_index_table])
def test_errors(table: Any) -> None:
    with pytest.raises(ValueError, match=r"rule must be one of .* got 'linear'"):
        table("linear", 2, 4)
    with pytest.raises(ValueError, match='rule "jax" has no scale, got 2'):
        table("jax", 2, 4, 2)


# ------------------------------------------------------------------------ exact rules


@pytest.mark.parametrize(("rule", "half"), [("half_pixel", 1), ("asymmetric", 0)])
def test_exact(rule: str, half: int) -> None:
    for m, n in PAIRS:
        expected = (2 * np.arange(n) + half) * m // (2 * n)
        np.testing.assert_array_equal(index_table(rule, m, n), expected)
    for m, n in [(7, 19), (130, 77), (1000, 1), (1, 1000), (65_537, 70_001)]:
        centre = Fraction(half, 2)
        expected = [(i + centre) * m // n for i in range(n)]
        np.testing.assert_array_equal(index_table(rule, m, n), expected)


@pytest.mark.parametrize(("rule", "half"), [("half_pixel", 1), ("asymmetric", 0)])
@pytest.mark.parametrize(
    "scale",
    [*SCALES, 3, Fraction(8, 5), Fraction(2, 3), 2 / 3, 120 / 88, Fraction(0.1), 1e-2],
)
def test_exact_by_scale(rule: str, half: int, scale: Any) -> None:
    # A float is the decimal that it prints as, a Fraction and an int what it is.
    exact = Fraction(str(scale)) if isinstance(scale, float) else Fraction(scale)
    for m in (2, 5, 17, 88, 130, 4096):
        n = output_size(m, scale)
        if n != m:
            expected = [
                min((i + Fraction(half, 2)) / exact // 1, m - 1) for i in range(n)
            ]
            np.testing.assert_array_equal(index_table(rule, m, n, scale), expected)


def test_a_float_is_not_the_fraction_that_equals_it() -> None:
    assert Fraction(0.1) == 0.1
    assert index_table("asymmetric", 30, 3, 0.1).tolist() == [0, 10, 20]
    assert index_table("asymmetric", 30, 3, Fraction(0.1)).tolist() == [0, 9, 19]


# -------------------------------------------------------------------------- torch


def torch_table(mode: str, m: int, n: int | None, scale: float | None) -> np.ndarray:
    torch = pytest.importorskip("torch")
    # This layout, of 4 channels or more, takes the formula: others differ on CPUs.
    x = torch.arange(m, dtype=torch.float32).expand(1, 4, 2, m)
    y = torch.nn.functional.interpolate(
        x.contiguous(memory_format=torch.channels_last),
        size=None if n is None else (2, n),
        scale_factor=None if scale is None else (1.0, scale),
        mode=mode,
    )
    return y[0, 0, 0].numpy().astype(np.int64)


TORCH_MODES = pytest.mark.parametrize(
    ("rule", "mode"), [("torch", "nearest"), ("torch_exact", "nearest-exact")]
)


@pytest.fixture
def torch() -> None:
    try:
        import torch
    except ImportError:
        skip_or_fail("torch", "torch is not installed")
    torch.set_num_threads(1)


@TORCH_MODES
@pytest.mark.usefixtures("torch")
def test_torch(rule: str, mode: str) -> None:
    for m, n in PAIRS:
        expected = torch_table(mode, m, n, None)
        np.testing.assert_array_equal(index_table(rule, m, n), expected)


@TORCH_MODES
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("scale", SCALES)
def test_torch_by_scale(rule: str, mode: str, scale: float) -> None:
    for m in IN_SIZES:
        n = output_size(m, scale)
        if n == 0 or (rule == "torch_exact" and n == m):
            continue  # torch refuses; test_torch_exact_by_scale_to_the_same_size
        expected = torch_table(mode, m, None, scale)
        np.testing.assert_array_equal(index_table(rule, m, n, scale), expected)


@pytest.mark.usefixtures("torch")
def test_torch_exact_by_scale_to_the_same_size() -> None:
    # Here alone we differ: to the same size we copy, and torch only in "nearest".
    assert torch_table("nearest", 3, None, 1.3).tolist() == [0, 1, 2]
    assert torch_table("nearest-exact", 3, None, 1.3).tolist() == [0, 1, 1]
    assert index_table("torch_exact", 3, 3, 1.3).tolist() == [0, 1, 2]


def test_torch_doubles_by_a_shift() -> None:
    # As torch on CPUs: by 2.05 it would be floor(i / 2.05) = [0, 0, 0, 1].
    assert output_size(2, 2.05) == 4
    assert index_table("torch", 2, 4, 2.05).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("rule", "offset"), [("torch", 0), ("torch_exact", 0.5)])
def test_torch_formula(rule: str, offset: float) -> None:
    for m, n in PAIRS:
        expected = to_index(f32_range(n, offset) * f32(f32(m) / f32(n)), m)
        np.testing.assert_array_equal(index_table(rule, m, n), expected)
        scale = n / m + 0.013
        n = output_size(m, scale)
        if n not in (m, 2 * m):
            expected = to_index(f32_range(n, offset) * f32(1.0 / scale), m)
            np.testing.assert_array_equal(index_table(rule, m, n, scale), expected)


# ---------------------------------------------------------------------- installed jax


def jax_tables(pairs: list[tuple[int, int]]) -> list[np.ndarray]:
    """jax.image.resize under jit, of many pairs in one program."""

    def program(x: jax.Array) -> list[jax.Array]:
        return [jax.image.resize(x[:m], (n,), "nearest") for m, n in pairs]

    x = np.arange(max(m for m, _ in pairs), dtype=np.int32)
    # Only LLVM optimizes less, and faster: what XLA does to the arithmetic remains.
    options = {"xla_backend_optimization_level": 0}
    tables = jax.jit(program).lower(x).compile(compiler_options=options)(x)
    return [np.asarray(table) for table in tables]


@functools.cache
def sensitive_pairs() -> list[tuple[int, int]]:
    """Those for which the order or kind of the float32 operations matters at all."""
    pairs = []
    for m, n in PAIRS:
        i = f32_range(n, 0.5)
        tables = [
            i * (f32(m) * (f32(1) / f32(n))),
            i * f32(m) * (f32(1) / f32(n)),
            i * f32(m) / f32(n),
            i * (f32(m) / f32(n)),
        ]
        if any(
            not np.array_equal(to_index(t, m), to_index(tables[0], m)) for t in tables
        ):
            pairs.append((m, n))
    return pairs


@pytest.mark.parametrize("part", range(8))
def test_jax(part: int) -> None:
    # 1 in 100 of the others, too.
    pairs = (sensitive_pairs() + PAIRS[::101])[part::8]
    for (m, n), expected in zip(pairs, jax_tables(pairs), strict=True):
        np.testing.assert_array_equal(index_table("jax", m, n), expected)


@pytest.mark.large  # minutes, not gigabytes
def test_jax_all_pairs() -> None:
    for part in range(130):
        pairs = PAIRS[part::130]
        for (m, n), expected in zip(pairs, jax_tables(pairs), strict=True):
            np.testing.assert_array_equal(index_table("jax", m, n), expected)


@pytest.mark.parametrize("sizes", [(10, 25), (25, 10), (10, 55), (129, 250), (7, 84)])
def test_jax_of_images(sizes: tuple[int, int]) -> None:
    m, n = sizes
    x = np.broadcast_to(np.arange(m, dtype=np.float32)[:, None, None], (m, m, 3))
    y = jax.jit(lambda x: jax.image.resize(x, (n, n, 3), "nearest"))(x)
    np.testing.assert_array_equal(index_table("jax", m, n), y[:, 0, 0])


def test_the_formula_is_known() -> None:
    """Else every table costs a compilation: time to write down a third formula."""
    assert _nearest_rules._jax_formula() is not None


def enter_nothing(probe: Any) -> None:
    probe(1.0)


def enter_jit(probe: Any) -> None:
    jax.jit(probe)(1.0)


def enter_grad_of_jit(probe: Any) -> None:
    jax.grad(jax.jit(probe))(1.0)


def enter_vmap(probe: Any) -> None:
    jax.vmap(probe)(np.ones(3))


def enter_scan(probe: Any) -> None:
    jax.lax.scan(lambda carry, x: (carry, probe(x)), 0.0, np.ones(3))


def enter_eager(probe: Any) -> None:
    with jax.disable_jit():
        probe(1.0)


def enter_compile_time(probe: Any) -> None:
    with jax.ensure_compile_time_eval():  # alone this divides, without XLA
        probe(1.0)


def enter_guarded(probe: Any) -> None:
    with jax.transfer_guard("disallow"), jax.debug_nans(True):
        probe(1.0)


def enter_lenient(probe: Any) -> None:
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        probe(1.0)


@pytest.mark.usefixtures("no_caches")
@pytest.mark.parametrize(
    "enter",
    [
        *(enter_nothing, enter_jit, enter_grad_of_jit, enter_vmap, enter_scan),
        *(enter_eager, enter_compile_time, enter_guarded, enter_lenient),
    ],
)
def test_jax_is_asked_anywhere(enter: Any) -> None:
    (expected,) = jax_tables([(10, 25)])
    tables = []

    def probe(x: Any) -> Any:
        tables.append(index_table("jax", 10, 25))
        return x * 2

    enter(probe)
    np.testing.assert_array_equal(tables[0], expected)


@pytest.mark.usefixtures("no_caches")
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("jax_disable_jit", True), ("jax_transfer_guard", "disallow")),
        *(("jax_enable_x64", False), ("jax_check_tracer_leaks", True)),
    ],
)
def test_jax_is_asked_under_any_setting(setting: str, value: Any) -> None:
    (expected,) = jax_tables([(10, 25)])
    before = getattr(jax.config, setting)
    jax.config.update(setting, value)
    try:
        table = index_table("jax", 10, 25)
    finally:
        jax.config.update(setting, before)
    np.testing.assert_array_equal(table, expected)


@pytest.mark.usefixtures("no_caches")
def test_jax_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    index_table("jax", 10, 25)
    monkeypatch.delattr(jax.image, "resize")
    assert index_table("jax", 2, 3).tolist() == [0, 1, 1]


@pytest.mark.usefixtures("no_caches")
@pytest.mark.parametrize("inside_jit", [False, True])
def test_jax_of_no_known_formula(
    inside_jit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jax that breaks ties downwards, say: then it is asked for each table."""

    def resize(x: jax.Array, shape: tuple[int, ...], method: str) -> jax.Array:
        assert method == "nearest"
        (m,), (n,) = x.shape, shape
        return x[((2 * np.arange(n) + 1) * m - 1) // (2 * n)]

    monkeypatch.setattr(jax.image, "resize", resize)
    seen = []

    def see(x: float) -> float:
        seen.append(index_table("jax", 512, 256))
        seen.append(first_output_table("jax", 4, 2))
        return x

    (jax.jit(see) if inside_jit else see)(1.0)
    assert _nearest_rules._jax_formula() is None
    np.testing.assert_array_equal(seen[0], 2 * np.arange(256))
    assert seen[1].tolist() == [0, 1, 1, 2, 2]


# -------------------------------------------------------------------------- long axes


def test_C031_long_axes() -> None:
    """2^23 -> 2^24: float32 has no halves up there, and jax is off by one."""
    m, n = 2**23, 2**24
    for rule in ("half_pixel", "asymmetric", "torch"):
        table = index_table(rule, m, n)
        assert np.array_equal(table, np.arange(n) // 2)
        assert is_repeat(rule, m, n)
        assert np.array_equal(first_output_table(rule, m, n), np.arange(m + 1) * 2)
    y = jax.jit(lambda x: jax.image.resize(x, (n,), "nearest"))(np.arange(m))
    table = index_table("jax", m, n)
    assert np.array_equal(table, y)
    assert not is_repeat("jax", m, n)
    assert np.argmax(table != np.arange(n) // 2) == 8_388_609


@pytest.mark.parametrize("rule", RULES)
def test_C090_width_65536(rule: str) -> None:
    np.testing.assert_array_equal(
        index_table(rule, 32768, 65536), np.arange(65536) // 2
    )
    assert is_repeat(rule, 32768, 65536)


def test_longest_axes() -> None:
    # Beyond 32 bits in the products, and 53.
    n = 3 * 2**20 + 1
    for m in (2**31 - 1, 2**31 - 2):
        table = index_table("half_pixel", m, n)
        for i in (0, 1, 12_345, n // 2, n - 1):
            assert table[i] == (2 * i + 1) * m // (2 * n)


def test_long_tables_are_not_kept() -> None:
    assert index_table("jax", 100, 65_536) is index_table("jax", 100, 65_536)
    assert index_table("jax", 100, 65_537) is not index_table("jax", 100, 65_537)
    short, long = 100, 70_000
    assert first_output_table("torch", long, short) is not first_output_table(
        "torch", long, short
    )


# ----------------------------------------------------------------------- in the graph

TRACED_PAIRS = [
    *((2, 82), (26, 11), (10, 25), (5, 5), (1, 7), (7, 1), (62, 14), (129, 250)),
    *((13, 3000), (100_003, 200_001), (200_001, 65_539), (2**21 + 1, 77)),
]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_traced_under_jit(rule: str, x64: bool) -> None:
    jax.config.update("jax_enable_x64", x64)
    try:
        for m, n in TRACED_PAIRS:
            indices, first = jax.jit(
                lambda m=m, n=n: (
                    traced_index_table(rule, m, n),
                    traced_first_output_table(rule, m, n),
                )
            )()
            assert indices.dtype == first.dtype == jnp.int32
            np.testing.assert_array_equal(indices, index_table(rule, m, n))
            np.testing.assert_array_equal(first, first_output_table(rule, m, n))
    finally:
        jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("rule", RULES)
def test_traced_exported(rule: str) -> None:
    def tables(x: jax.Array, y: jax.Array) -> Any:
        (m,), (n,) = x.shape, y.shape
        return traced_index_table(rule, m, n), traced_first_output_table(rule, m, n)

    m, n = export.symbolic_shape("m, n")
    shapes = [jax.ShapeDtypeStruct((size,), np.int8) for size in (m, n)]
    exported = export.export(jax.jit(tables))(*shapes)
    assert "stablehlo.sort" not in exported.mlir_module()
    for m, n in TRACED_PAIRS[:9]:
        indices, first = exported.call(np.zeros(m, np.int8), np.zeros(n, np.int8))
        np.testing.assert_array_equal(indices, index_table(rule, m, n))
        np.testing.assert_array_equal(first, first_output_table(rule, m, n))


def test_traced_has_no_scale() -> None:
    (n,) = export.symbolic_shape("n")
    with pytest.raises(ValueError, match=r"scale must be None .* \(n -> 2\*n\), got 2"):
        traced_index_table("torch", n, 2 * n, 2)


# As arguments sizes are no constants; and both forms must take any estimate.


def some_sizes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    powers = 2.0 ** np.random.default_rng(seed).uniform(0, 24, (2, 100_000))
    edges = np.array([2**k + d for k in range(2, 24) for d in (-1, 0, 1)])
    m, n = (
        np.concatenate([p.astype(int), q.ravel()])
        for p, q in zip(powers, np.meshgrid(edges, edges), strict=True)
    )
    return m, n


def test_traced_quotient_is_correctly_rounded() -> None:
    m, n = some_sizes(0)
    quotient = jax.jit(_nearest_rules._traced_quotient)(
        m.astype(np.uint32), n.astype(np.uint32)
    )
    np.testing.assert_array_equal(quotient, m.astype(f32) / n.astype(f32))


@pytest.mark.parametrize("error", [-3, -1, 1, 3])
def test_traced_quotient_of_a_bad_division(
    error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, n = some_sizes(1)
    expected = m.astype(f32) / n.astype(f32)
    wrong = (expected.view(np.int32) + error).view(f32)
    bitcast = jax.lax.bitcast_convert_type

    def bitcast_of_wrong(x: jax.Array, dtype: Any) -> jax.Array:
        return bitcast(wrong if x.dtype == jnp.float32 else x, dtype)

    monkeypatch.setattr(jax.lax, "bitcast_convert_type", bitcast_of_wrong)
    quotient = _nearest_rules._traced_quotient(
        jnp.asarray(m.astype(np.uint32)), jnp.asarray(n.astype(np.uint32))
    )
    np.testing.assert_array_equal(quotient, expected)


@pytest.mark.parametrize("half", [False, True])
def test_traced_exact_does_not_overflow(half: bool) -> None:
    m, n = some_sizes(2)
    for i in (0 * n, n // 2, n - 1, n * 2 // 3):
        expected = (i * m + (m // 2 if half else 0)) // n
        args = (x.astype(np.int32) for x in (i, m, n))
        table = jax.jit(_nearest_rules._traced_exact, static_argnums=3)(*args, half)
        np.testing.assert_array_equal(table, expected)


# --------------------------------------------------------------------- reported cases

HALVES = ("half_pixel", "torch_exact", "jax")
CORNERS = ("asymmetric", "torch")


@pytest.mark.parametrize(
    ("rules", "m", "n", "expected"),
    [
        pytest.param(CORNERS, 5, 3, [0, 1, 3], id="C001_corners"),
        pytest.param(HALVES, 5, 3, [0, 2, 4], id="C001_halves"),
        pytest.param(HALVES, 512, 256, range(1, 512, 2), id="C003_ties_go_up"),
        pytest.param(CORNERS, 512, 256, range(0, 512, 2), id="C003_corners"),
        pytest.param(HALVES, 4, 5, [0, 1, 2, 2, 3], id="C004_factor_of_0_8"),
        pytest.param(HALVES, 4, 6, [0, 1, 1, 2, 3, 3], id="C005_C012_halves"),
        pytest.param(CORNERS, 4, 6, [0, 0, 1, 2, 2, 3], id="C005_corners"),
        pytest.param(CORNERS, 4, 5, [0, 0, 1, 2, 3], id="C006_to_5"),
        pytest.param(CORNERS, 4, 12, [i // 3 for i in range(12)], id="C006_to_12"),
        pytest.param(RULES, 3, 9, [0, 0, 0, 1, 1, 1, 2, 2, 2], id="C014_blocks"),
        pytest.param(RULES, 2, 4, [0, 0, 1, 1], id="C009_C153_twice"),
        pytest.param(
            ("half_pixel",), 20, 11, [0, 2, 4, 6, 8, 10, 11, 13, 15, 17, 19], id="C152"
        ),
        pytest.param(
            ("half_pixel",), 26, 11, [1, 3, 5, 8, 10, 13, 15, 17, 20, 22, 24], id="C013"
        ),
        pytest.param(
            ("torch_exact",),
            *(26, 11, [1, 3, 5, 8, 10, 12, 15, 17, 20, 22, 24]),
            id="C013_in_float32",
        ),
    ],
)
def test_reported(rules: tuple[str, ...], m: int, n: int, expected: Any) -> None:
    for rule in rules:
        assert index_table(rule, m, n).tolist() == list(expected), rule


def test_C008_26_to_64() -> None:
    for rule, half in (("half_pixel", 1), ("asymmetric", 0)):
        expected = [(2 * i + half) * 26 // 128 for i in range(64)]
        assert index_table(rule, 26, 64).tolist() == expected
    assert not np.array_equal(
        *(index_table(r, 26, 64) for r in ("torch", "half_pixel"))
    )


@pytest.mark.parametrize(("m", "n"), [(30, 75), (40, 100)])
def test_C011_factor_of_2_5(m: int, n: int) -> None:
    expected = to_index(f32_range(n, 0) * f32(0.4), m)
    np.testing.assert_array_equal(index_table("torch", m, n), expected)
    expected = (2 * np.arange(n) + 1) * 2 // 10
    np.testing.assert_array_equal(index_table("half_pixel", m, n), expected)


@pytest.mark.parametrize("rule", HALVES)
def test_C017_coordinate_at_a_tie(rule: str) -> None:
    assert (1 + 0.5) * 4 / 6 - 0.5 == 0.5
    assert index_table(rule, 4, 6)[1] == 1


def test_C019_C001_half_pixel_is_not_torch() -> None:
    for m, n in ((400, 224), (600, 336), (480, 800), (854, 1200)):
        torch_like, pillow_like = (
            index_table(r, m, n) for r in ("torch", "half_pixel")
        )
        assert not np.array_equal(torch_like, pillow_like)


def test_C021_C022_C035_unchanged_sizes_are_copied() -> None:
    for rule in RULES[1:]:
        for m in (2, 3):
            assert output_size(m, 1.3) == m
            assert index_table(rule, m, m, 1.3).tolist() == list(range(m))
    assert output_size(4, 1.3) == 5
    assert output_size(4, 1.5) == 6
    for rule in CORNERS:
        assert index_table(rule, 4, 6, 1.5).tolist() == [0, 0, 1, 2, 2, 3]


def test_C024_jax_multiplies_by_the_reciprocal() -> None:
    divided = f32(49.5) / f32(50)
    for formula in (_nearest_rules._jax_merged, _nearest_rules._jax_in_order):
        assert formula(1, 50)[49] == f32(49.5) * f32(0.02) != divided


def test_C027_10_to_25() -> None:
    tied = [2, 7, 12, 17]
    merged, in_order = _nearest_rules._jax_merged, _nearest_rules._jax_in_order
    assert to_index(merged(10, 25), 10)[tied].tolist() == [0, 2, 4, 6]
    assert to_index(in_order(10, 25), 10)[tied].tolist() == [1, 3, 5, 7]
    y = jax.jit(lambda x: jax.image.resize(x, (25,), "nearest"))(np.arange(10))
    np.testing.assert_array_equal(index_table("jax", 10, 25), y)


@pytest.mark.parametrize(
    ("n", "i"), [pytest.param(82, 41, id="C028_C030"), pytest.param(41, 20, id="C029")]
)
def test_torch_rounds_a_tie_down(n: int, i: int) -> None:
    """Some torch layouts on some CPUs do not; the CUDA formula does, for any dtype."""
    assert index_table("torch", 2, n)[i] == 0
    assert index_table("asymmetric", 2, n)[i] == i * 2 // n
    assert not is_repeat("torch", 2, 82)
    assert is_repeat("asymmetric", 2, 82)
    assert is_repeat("half_pixel", 2, 82)


def test_C032_size_of_a_float_factor() -> None:
    assert output_size(88, 120 / 88) == 119
    assert output_size(88, Fraction(120, 88)) == 120
    assert output_size(88, 2) == 176


def test_C033_sizes_are_rounded_down() -> None:
    assert [output_size(32, s) for s in (0.1234, 0.9999, 1.8)] == [3, 31, 57]


def test_C034_C037_by_scale_or_by_size() -> None:
    assert output_size(4, 1.6) == 6
    for rule in CORNERS:
        assert index_table(rule, 4, 6, 1.6).tolist() == [0, 0, 1, 1, 2, 3]
        assert index_table(rule, 4, 6).tolist() == [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize("rule", RULES)
def test_C039_8_to_15(rule: str) -> None:
    table = index_table(rule, 8, 15)
    assert (len(table), table[-1]) == (15, 7)
