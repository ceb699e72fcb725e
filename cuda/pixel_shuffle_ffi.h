// The FFI handlers, one a direction and platform. Both platforms share the target
// names, attributes and checks:
//
//   jax_upsample_pixel_shuffle_fwd_v1   packed -> image
//   jax_upsample_pixel_shuffle_bwd_v1   image -> packed
//   jax_upsample_pixel_shuffle_sum_v1   packed, bias[, added] -> image
//   axes        i64[k]  consecutive, 1 to 3 of them; the channels' axis c is the next
//   scale       i64[k]  packed.shape[c] == image.shape[c] * product of scale
//   first       i64[k]  0 <= first[i], first[i] + image.shape[axes[i]]
//                       <= scale[i] * packed.shape[axes[i]]; all other sizes equal
//   activation  i64     of the sum: 0 none, 1 relu, 2 silu; there c is the last axis,
//                       bias has its size, or those of the axes before axes[0]
//                       and its, and added is like image

#ifndef JAX_UPSAMPLE_PIXEL_SHUFFLE_FFI_H_
#define JAX_UPSAMPLE_PIXEL_SHUFFLE_FFI_H_

#include "ffi_helpers.h"

JAX_UPSAMPLE_DECLARE_HANDLERS(JaxPixelShuffleFwd);
JAX_UPSAMPLE_DECLARE_HANDLERS(JaxPixelShuffleBwd);
JAX_UPSAMPLE_DECLARE_HANDLERS(JaxPixelShuffleSum);

#endif  // JAX_UPSAMPLE_PIXEL_SHUFFLE_FFI_H_
