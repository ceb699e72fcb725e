#include <cuda_runtime.h>

#include "stream_probe.h"

namespace jax_upsample {
namespace {

__global__ void __launch_bounds__(kThreadsPerBlock)
    StreamProbeKernel(const StreamProbe probe) {
  probe(blockIdx.x, static_cast<int>(threadIdx.x));
}

}  // namespace

int RunStreamProbe(const void* operand, int64_t operand_bytes, void* result,
                   int64_t result_bytes, CUstream_st* stream) {
  StreamProbe probe(operand, operand_bytes, result, result_bytes);
  void* arguments[] = {&probe};
  // As in cuda_backend.cuh: returns this launch's own error.
  return cudaLaunchKernel(
      reinterpret_cast<const void*>(&StreamProbeKernel),
      dim3(static_cast<unsigned>(ProbeBlocks(operand_bytes, result_bytes))),
      dim3(kThreadsPerBlock), arguments, /*sharedMem=*/0, stream);
}

}  // namespace jax_upsample
