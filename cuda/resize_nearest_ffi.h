// The FFI handlers, one a direction and platform. Both platforms share the
// target names, operands, attributes and checks:
//
//   jax_upsample_resize_nearest_fwd_v1   source, tables.. -> target
//   jax_upsample_resize_nearest_bwd_v1   target, tables.. -> source
//   axes   i64[k]   strictly increasing, 0 to 3 of them: those that change size
//   tables          one for each of them, i32[target.shape[axis]] for the forward, the
//                   source index of each target index; i32[source.shape[axis] + 1] for
//                   the backward, the first target index of each source index, then
//                   the target size
//
// All other dimensions are equal. What a table says is bounded by the sizes, so that a
// wrong one gives wrong values but no access outside of a buffer.

#ifndef JAX_UPSAMPLE_RESIZE_NEAREST_FFI_H_
#define JAX_UPSAMPLE_RESIZE_NEAREST_FFI_H_

#include "ffi_helpers.h"

JAX_UPSAMPLE_DECLARE_HANDLERS(JaxResizeNearestFwd);
JAX_UPSAMPLE_DECLARE_HANDLERS(JaxResizeNearestBwd);

#endif  // JAX_UPSAMPLE_RESIZE_NEAREST_FFI_H_
