#include "cuda_backend.cuh"
#include "pixel_shuffle_dispatch.h"

namespace jax_upsample {

int RunPixelShuffleFwd(const ShufflePlan& plan, const void* packed, void* image,
                       CUstream_st* stream) {
  return DispatchPixelShuffleFwd(plan, packed, image, CudaBackend(stream));
}

int RunPixelShuffleBwd(const ShufflePlan& plan, const void* image, void* packed,
                       CUstream_st* stream) {
  return DispatchPixelShuffleBwd(plan, image, packed, CudaBackend(stream));
}

int RunPixelShuffleSum(const ShufflePlan& plan, const void* packed,
                       const ShuffleSum& sum, void* image, CUstream_st* stream) {
  return DispatchPixelShuffleSum(plan, packed, sum, image, CudaBackend(stream));
}

}  // namespace jax_upsample
