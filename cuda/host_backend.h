// The kernels on the calling thread: for correctness where there is no GPU.

#ifndef JAX_UPSAMPLE_HOST_BACKEND_H_
#define JAX_UPSAMPLE_HOST_BACKEND_H_

#include "launch.h"

namespace jax_upsample {

struct HostBackend {
  template <typename Body, typename Plan>
  int ForEachItem(const Body& body, const Plan& plan) const {
    using Index = typename Body::IndexType;
    for (Index item = 0; item < static_cast<Index>(plan.items); ++item) body(item);
    return 0;
  }

  // The partial sums meet in the order in which a GPU block's do
  // (cuda_backend.cuh).
  template <typename Body, typename Plan>
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

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_HOST_BACKEND_H_
