#include "cuda_backend.cuh"
#include "upsample_add_dispatch.h"

namespace jax_upsample {

int RunUpsampleAdd(const Plan& plan, const void* small, const void* lateral,
                   void* large, CUstream_st* stream) {
  return DispatchUpsampleAdd(plan, small, lateral, large, CudaBackend(stream));
}

}  // namespace jax_upsample
