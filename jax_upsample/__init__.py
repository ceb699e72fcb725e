"""Upsampling for JAX at memory speed."""

from jax_upsample._ffi import export_disabled_checks as export_disabled_checks
from jax_upsample._launch_plan import LaunchPlan as LaunchPlan
from jax_upsample._launch_plan import launch_plan as launch_plan
from jax_upsample._patch import patch as patch
from jax_upsample._pixel_shuffle import pixel_shuffle as pixel_shuffle
from jax_upsample._pixel_shuffle import pixel_unshuffle as pixel_unshuffle
from jax_upsample._resize import interpolate as interpolate
from jax_upsample._resize import resize as resize
from jax_upsample._resize_nearest import resize_nearest as resize_nearest
from jax_upsample._upsample_conv import upsample_conv as upsample_conv
from jax_upsample._upsample_join import upsample_add as upsample_add
from jax_upsample._upsample_join import upsample_concat as upsample_concat
from jax_upsample._upsample_nearest import upsample_nearest as upsample_nearest
from jax_upsample._upsample_nearest import (
    upsample_nearest_custom_vjp as upsample_nearest_custom_vjp,
)

__version__ = "0.1.0"
