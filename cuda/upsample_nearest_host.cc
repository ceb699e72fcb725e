#include "host_backend.h"
#include "upsample_nearest_dispatch.h"

namespace jax_upsample {

int RunUpsampleNearestFwd(const Plan& plan, const void* small, void* large,
                          HostThread) {
  return DispatchUpsampleNearestFwd(plan, small, large, HostBackend());
}

int RunUpsampleNearestBwd(const Plan& plan, const void* large, void* small,
                          HostThread) {
  return DispatchUpsampleNearestBwd(plan, large, small, HostBackend());
}

}  // namespace jax_upsample
