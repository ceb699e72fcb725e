#include "host_backend.h"
#include "upsample_add_dispatch.h"

namespace jax_upsample {

int RunUpsampleAdd(const Plan& plan, const void* small, const void* lateral,
                   void* large, HostThread) {
  return DispatchUpsampleAdd(plan, small, lateral, large, HostBackend());
}

}  // namespace jax_upsample
