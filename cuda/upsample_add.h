// lateral + nearest upsampling by integer scales, in one pass: the array equation of
// upsample_nearest.h with
//
//   large[n0, s0, n1, s1, n2, s2, inner] = lateral[..] + small[n0, 1, n1, 1, n2, 1, inner]
//
// added in float32 or wider and rounded once.

#ifndef JAX_UPSAMPLE_UPSAMPLE_ADD_H_
#define JAX_UPSAMPLE_UPSAMPLE_ADD_H_

#include "upsample_nearest.h"

namespace jax_upsample {

// A plan of the forward whose units are 16 bytes or single numbers.
Plan PlanUpsampleAdd(Extents extents, Element element, int64_t alignment);

// As RunUpsampleNearestFwd and LaunchUpsampleNearestFwd.
int RunUpsampleAdd(const Plan& plan, const void* small, const void* lateral,
                   void* large, HostThread);
int RunUpsampleAdd(const Plan& plan, const void* small, const void* lateral,
                   void* large, CUstream_st* stream);

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_ADD_H_
