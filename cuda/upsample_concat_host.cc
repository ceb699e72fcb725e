#include "host_backend.h"
#include "upsample_concat_dispatch.h"

namespace jax_upsample {

int RunUpsampleConcat(const ConcatPlan& plan, const void* small, const void* skip,
                      void* large, HostThread) {
  return DispatchUpsampleConcat(plan, small, skip, large, HostBackend());
}

}  // namespace jax_upsample
