"""`jax.image.resize` replaced inside of `patch`, and only there."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import primitives

import jax_upsample

ORIGINAL = jax.image.resize


@pytest.fixture(autouse=True)
def restored():
    yield
    assert jax.image.resize is ORIGINAL


def enlarged(x, method="nearest"):
    return jax.image.resize(x, (2 * x.shape[0],), method)


def is_ours(x=None):
    x = jnp.ones(3, jnp.float32) if x is None else x
    return "upsample_nearest_fwd" in primitives(lambda x: enlarged(x), x)


def test_inside_it_is_ours_and_outside_it_is_not():
    assert not is_ours()
    with jax_upsample.patch():
        assert is_ours()
        with jax_upsample.patch():
            assert is_ours()
        assert is_ours()
    assert not is_ours()


def test_as_a_decorator():
    @jax_upsample.patch()
    def inside():
        return is_ours()

    assert inside()
    assert inside()
    assert not is_ours()


def test_values_are_the_same_and_gradients_are_sums():
    x = jnp.arange(6, dtype=jnp.bfloat16)
    by_jax = jax.image.resize(x, (4096 * 6,), "nearest")
    with jax_upsample.patch():
        by_us = jax.image.resize(x, shape=(4096 * 6,), method="nearest")
        gradient = jax.grad(
            lambda x: jax.image.resize(x, (4096 * 6,), "nearest").sum()
        )(x)
    np.testing.assert_array_equal(by_us, by_jax)
    assert (gradient == 4096).all()  # jax's own sum in bfloat16 ends at 256


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3"])
def test_other_methods_are_left_alone(method):
    x = jnp.arange(5, dtype=jnp.float32)
    by_jax = enlarged(x, method)
    with jax_upsample.patch():
        np.testing.assert_array_equal(enlarged(x, method), by_jax)


def test_functions_compiled_before_and_after_are_traced_again():
    """A trial of a step that has run before would else try nothing."""
    traced = []

    @jax.jit
    def step(x):
        traced.append(jax.image.resize is not ORIGINAL)
        return enlarged(x)

    x = jnp.ones(3, jnp.float32)
    step(x)
    with jax_upsample.patch():
        step(x)
        step(x)
    step(x)
    assert traced == [False, True, False]


def test_other_threads_keep_theirs():
    """Also while one leaves before the other."""
    entered, may_leave = threading.Event(), threading.Event()
    seen = {}

    def inside():
        with jax_upsample.patch():
            seen["inside"] = is_ours(jnp.ones(4, jnp.float32))
            entered.set()
            assert may_leave.wait(60)
            seen["later"] = is_ours(jnp.ones(5, jnp.float32))

    thread = threading.Thread(target=inside)
    thread.start()
    assert entered.wait(60)
    seen["outside"] = is_ours(jnp.ones(6, jnp.float32))
    with jax_upsample.patch():
        seen["as well"] = is_ours(jnp.ones(7, jnp.float32))
    seen["outside again"] = is_ours(jnp.ones(8, jnp.float32))
    may_leave.set()
    thread.join()
    assert seen == {
        "inside": True,
        "outside": False,
        "as well": True,
        "outside again": False,
        "later": True,
    }


def test_an_error_restores():
    with pytest.raises(ZeroDivisionError), jax_upsample.patch():
        raise ZeroDivisionError
    assert not is_ours()


def test_what_something_else_replaced_is_refused(monkeypatch):
    monkeypatch.setattr(jax.image, "resize", lambda *args: args)
    with (
        pytest.raises(
            RuntimeError, match=r"resize has been replaced already, by <func"
        ),
        jax_upsample.patch(),
    ):
        pass
    monkeypatch.undo()


def test_inside_of_a_traced_function():
    @jax.jit
    def step(x):
        with jax_upsample.patch():
            return enlarged(x)

    x = jnp.arange(3, dtype=jnp.float32)
    np.testing.assert_array_equal(step(x), [0, 0, 1, 1, 2, 2])
    assert not is_ours()
