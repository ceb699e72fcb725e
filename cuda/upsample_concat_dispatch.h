// From a plan to the kernel body that it names, once for every backend (dispatch.h).

#ifndef JAX_UPSAMPLE_UPSAMPLE_CONCAT_DISPATCH_H_
#define JAX_UPSAMPLE_UPSAMPLE_CONCAT_DISPATCH_H_

#include "upsample_concat.h"
#include "upsample_concat_body.h"
#include "upsample_nearest_dispatch.h"

namespace jax_upsample {

// The forward's dispatch chooses the body; this backend runs it on its items and the
// copy of skip on what follows.
template <typename Backend>
struct ConcatBackend {
  const ConcatPlan& plan;
  const void* skip;
  void* large;
  const Backend& backend;

  template <typename Body>
  int ForEachItem(const Body& body, const Plan&) const {
    return backend.ForEachItem(UpsampleConcat<Body>(plan, body, skip, large), plan);
  }
};

template <typename Backend>
int DispatchUpsampleConcat(const ConcatPlan& plan, const void* small, const void* skip,
                           void* large, const Backend& backend) {
  return DispatchUpsampleNearestRows(
      plan.upsampled, small, static_cast<char*>(large) + plan.extents.upsampled_at,
      ConcatBackend<Backend>{plan, skip, large, backend});
}

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_CONCAT_DISPATCH_H_
