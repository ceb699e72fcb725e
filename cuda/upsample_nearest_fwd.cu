#include "cuda_backend.cuh"
#include "upsample_nearest_dispatch.h"

namespace jax_upsample {

int RunUpsampleNearestFwd(const Plan& plan, const void* small, void* large,
                          CUstream_st* stream) {
  return DispatchUpsampleNearestFwd(plan, small, large, CudaBackend(stream));
}

const char* CudaErrorText(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

const int* CudaArchitectures() {
  static constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__, 0};
  return kArchitectures;
}

}  // namespace jax_upsample
