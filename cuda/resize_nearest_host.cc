#include "host_backend.h"
#include "resize_nearest_dispatch.h"

namespace jax_upsample {

int RunResizeNearestFwd(const ResizePlan& plan, const void* source, void* target,
                        HostThread) {
  return DispatchResizeNearestFwd(plan, source, target, HostBackend());
}

int RunResizeNearestBwd(const ResizePlan& plan, const void* target, void* source,
                        HostThread) {
  return DispatchResizeNearestBwd(plan, target, source, HostBackend());
}

}  // namespace jax_upsample
