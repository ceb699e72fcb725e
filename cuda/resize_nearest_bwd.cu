#include "cuda_backend.cuh"
#include "resize_nearest_dispatch.h"

namespace jax_upsample {

int RunResizeNearestBwd(const ResizePlan& plan, const void* target, void* source,
                        CUstream_st* stream) {
  return DispatchResizeNearestBwd(plan, target, source, CudaBackend(stream));
}

}  // namespace jax_upsample
