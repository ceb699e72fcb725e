// The FFI handlers, one a direction and platform. Both platforms share the target
// names, attributes and checks:
//
//   jax_upsample_concat_fwd_v1   small, skip -> concatenation
//   jax_upsample_concat_bwd_v1   concatenation -> small
//   axes, scale   as of jax_upsample_nearest_fwd_v1, of the part that is upsampled
//   concat_axis   i64   none of axes, nor between two of them, nor before three
//   start         i64   where along concat_axis that part begins: forward 0, or after
//                       all of skip

#ifndef JAX_UPSAMPLE_UPSAMPLE_CONCAT_FFI_H_
#define JAX_UPSAMPLE_UPSAMPLE_CONCAT_FFI_H_

#include "ffi_helpers.h"

JAX_UPSAMPLE_DECLARE_HANDLERS(JaxUpsampleConcatFwd);
JAX_UPSAMPLE_DECLARE_HANDLERS(JaxUpsampleConcatBwd);

#endif  // JAX_UPSAMPLE_UPSAMPLE_CONCAT_FFI_H_
