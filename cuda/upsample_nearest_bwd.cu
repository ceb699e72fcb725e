#include "cuda_backend.cuh"
#include "upsample_nearest_dispatch.h"

namespace jax_upsample {

int RunUpsampleNearestBwd(const Plan& plan, const void* large, void* small,
                          CUstream_st* stream) {
  return DispatchUpsampleNearestBwd(plan, large, small, CudaBackend(stream));
}

}  // namespace jax_upsample
