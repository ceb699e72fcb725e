// The FFI handlers, one a direction and platform. Both platforms share the
// target names, attributes and checks:
//
//   jax_upsample_nearest_fwd_v1   small -> large
//   jax_upsample_nearest_bwd_v1   large -> small
//   axes   i64[k]   strictly increasing, 0 to 3 of them
//   scale  i64[k]   large.shape[axes[i]] == small.shape[axes[i]] * scale[i],
//                   all other dimensions equal
//
// An axis of size 1 that grows to `scale` right after the axis it repeats is
// the same memory as that axis growing `scale` times, so the interleaved form
// [.., H, 1, W, 1, ..] -> [.., H, sh, W, sw, ..] is understood as it stands.
//
//   tiled  i64      if not 0, every array has k dimensions more, at its end: of size
//                   `scale` in the large one, whose axes are as long as the small one's
//                   then, and 1 in the small one
//
// A tiled large array [.., H, W, .., sh, sw] has the same memory as the one that it
// stands for: its layout says so, which no handler sees.

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_FFI_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_FFI_H_

#include <cstdint>
#include <vector>

#include "ffi_helpers.h"

namespace jax_upsample {

// The sizes of an array of one call, those of a tiled one as if it were none.
enum class Role { kSmall, kLarge };
ffi::Error DecodeDimensions(const char* op, Integers dims, Role role, Integers axes,
                            Integers scale, int64_t tiled, std::vector<int64_t>* sizes);

inline Integers Span(const std::vector<int64_t>& sizes) {
  return Integers(sizes.data(), sizes.size());
}

// The scale of every dimension of one call, all sizes checked: whoever made the call,
// also a stored program.
ffi::Error DecodeScales(const char* op, Integers small, Integers large, Integers axes,
                        Integers scale, int64_t element_bytes,
                        std::vector<int64_t>* scales);

}  // namespace jax_upsample

JAX_UPSAMPLE_DECLARE_HANDLERS(JaxUpsampleNearestFwd);
JAX_UPSAMPLE_DECLARE_HANDLERS(JaxUpsampleNearestBwd);

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_FFI_H_
