#include "host_backend.h"
#include "pixel_shuffle_dispatch.h"

namespace jax_upsample {

int RunPixelShuffleFwd(const ShufflePlan& plan, const void* packed, void* image,
                       HostThread) {
  return DispatchPixelShuffleFwd(plan, packed, image, HostBackend());
}

int RunPixelShuffleBwd(const ShufflePlan& plan, const void* image, void* packed,
                       HostThread) {
  return DispatchPixelShuffleBwd(plan, image, packed, HostBackend());
}

int RunPixelShuffleSum(const ShufflePlan& plan, const void* packed,
                       const ShuffleSum& sum, void* image, HostThread) {
  return DispatchPixelShuffleSum(plan, packed, sum, image, HostBackend());
}

}  // namespace jax_upsample
