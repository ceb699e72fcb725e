// The kernels on the calling thread: for correctness where there is no GPU.

#include "upsample_nearest_dispatch.h"

namespace jax_upsample {
namespace {

struct HostBackend {
  template <typename Body>
  int ForEachItem(const Body& body, const Plan& plan) const {
    using Index = typename Body::IndexType;
    for (Index item = 0; item < static_cast<Index>(plan.items); ++item) body(item);
    return 0;
  }

  // The partial sums meet in the order in which a GPU block's do
  // (cuda_backend.cuh).
  template <typename Body>
  int SumItems(const Body& body, const Plan& plan) const {
    using Index = typename Body::IndexType;
    const Index lanes = static_cast<Index>(plan.lanes);
    typename Body::Sums partial[kThreadsPerBlock];
    for (Index item = 0; item < static_cast<Index>(plan.items); ++item) {
      for (Index lane = 0; lane < lanes; ++lane)
        partial[lane] = body.Sum(item, lane, lanes);
      for (Index stride = lanes / 2; stride > 0; stride /= 2) {
        for (Index lane = 0; lane < stride; ++lane)
          partial[lane].Add(partial[lane + stride]);
      }
      body.Store(item, partial[0]);
    }
    return 0;
  }
};

}  // namespace

int RunUpsampleNearestFwd(const Plan& plan, const void* small, void* large) {
  return DispatchUpsampleNearestFwd(plan, small, large, HostBackend());
}

int RunUpsampleNearestBwd(const Plan& plan, const void* large, void* small) {
  return DispatchUpsampleNearestBwd(plan, large, small, HostBackend());
}

}  // namespace jax_upsample
