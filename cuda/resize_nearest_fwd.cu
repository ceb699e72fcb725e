#include "cuda_backend.cuh"
#include "resize_nearest_dispatch.h"

namespace jax_upsample {

int RunResizeNearestFwd(const ResizePlan& plan, const void* source, void* target,
                        CUstream_st* stream) {
  return DispatchResizeNearestFwd(plan, source, target, CudaBackend(stream));
}

}  // namespace jax_upsample
