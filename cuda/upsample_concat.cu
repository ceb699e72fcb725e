#include "cuda_backend.cuh"
#include "upsample_concat_dispatch.h"

namespace jax_upsample {

int RunUpsampleConcat(const ConcatPlan& plan, const void* small, const void* skip,
                      void* large, CUstream_st* stream) {
  return DispatchUpsampleConcat(plan, small, skip, large, CudaBackend(stream));
}

}  // namespace jax_upsample
