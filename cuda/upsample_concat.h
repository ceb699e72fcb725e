// A nearest upsampling by integer scales and another array, end to end along an axis
// that does not change: written by one launch, and the transpose read in place.

#ifndef JAX_UPSAMPLE_UPSAMPLE_CONCAT_H_
#define JAX_UPSAMPLE_UPSAMPLE_CONCAT_H_

#include "upsample_nearest.h"

namespace jax_upsample {

// The concatenation is periods of one part of each operand. All in bytes.
struct ConcatExtents {
  Extents upsampled;         // as part of the concatenation
  int64_t period = 0;        // from a part to the operand's next
  int64_t upsampled_at = 0;  // where in a period
  int64_t skip_at = 0;
  int64_t skip_part = 0;  // the length of a part of skip
  int64_t skip_bytes = 0;
};

struct ConcatPlan {
  Plan upsampled;
  ConcatExtents extents;
  int64_t items;  // those of `upsampled`, then the vectors of skip
  int64_t blocks;
};

// `alignment` as of PlanUpsampleNearestFwd.
ConcatPlan PlanUpsampleConcat(const ConcatExtents& extents, Element element,
                              int64_t alignment);

// As RunUpsampleNearestFwd and LaunchUpsampleNearestFwd.
int RunUpsampleConcat(const ConcatPlan& plan, const void* small, const void* skip,
                      void* large, HostThread);
int RunUpsampleConcat(const ConcatPlan& plan, const void* small, const void* skip,
                      void* large, CUstream_st* stream);

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_CONCAT_H_
