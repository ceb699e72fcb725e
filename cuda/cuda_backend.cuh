// The kernels on a CUDA stream.

#ifndef JAX_UPSAMPLE_CUDA_BACKEND_CUH_
#define JAX_UPSAMPLE_CUDA_BACKEND_CUH_

#include <cuda_runtime.h>

#include "launch.h"

namespace jax_upsample {

template <typename Body>
__global__ void __launch_bounds__(kThreadsPerBlock)
    ForEachItem(const Body body, typename Body::IndexType items) {
  using Index = typename Body::IndexType;
  const Index item = static_cast<Index>(blockIdx.x) * kThreadsPerBlock + threadIdx.x;
  if (item < items) body(item);
}

// Thread lane * lane_step + slot * slot_step of a block is a lane of its item
// `slot`.
template <typename Index>
struct LaneMap {
  Index lanes;
  Index lane_step;
  Index slot_step;
};

template <typename Body>
__global__ void __launch_bounds__(kThreadsPerBlock)
    SumItems(const Body body, typename Body::IndexType items,
             const LaneMap<typename Body::IndexType> map) {
  using Index = typename Body::IndexType;
  using Sums = typename Body::Sums;
  const Index slots = kThreadsPerBlock / map.lanes;
  const Index lane = threadIdx.x / map.lane_step % map.lanes;
  const Index item =
      static_cast<Index>(blockIdx.x) * slots + threadIdx.x / map.slot_step % slots;

  Sums sums;
  if (item < items) sums = body.Sum(item, lane, map.lanes);
  if (map.lanes > 1) {
    // Raw memory, for shared variables cannot have initialisers.
    __shared__ alignas(Sums) unsigned char memory[kThreadsPerBlock * sizeof(Sums)];
    Sums* partial = reinterpret_cast<Sums*>(memory) + threadIdx.x;
    *partial = sums;
    for (Index stride = map.lanes / 2; stride > 0; stride /= 2) {
      __syncthreads();
      if (lane < stride) partial->Add(partial[stride * map.lane_step]);
    }
    sums = *partial;
  }
  if (lane == 0 && item < items) body.Store(item, sums);
}

class CudaBackend {
 public:
  explicit CudaBackend(cudaStream_t stream) : stream_(stream) {}

  template <typename Body, typename Plan>
  int ForEachItem(const Body& body, const Plan& plan) const {
    const typename Body::IndexType items = plan.items;
    return Launch(&jax_upsample::ForEachItem<Body>, plan, body, items);
  }

  template <typename Body, typename Plan>
  int SumItems(const Body& body, const Plan& plan) const {
    using Index = typename Body::IndexType;
    const Index items = plan.items, lanes = plan.lanes,
                slots = kThreadsPerBlock / plan.lanes;
    const LaneMap<Index> map = plan.lanes_adjacent ? LaneMap<Index>{lanes, 1, lanes}
                                                   : LaneMap<Index>{lanes, slots, 1};
    return Launch(&jax_upsample::SumItems<Body>, plan, body, items, map);
  }

 private:
  // cudaLaunchKernel returns this launch's own error, where cudaGetLastError after
  // <<<>>> may return an earlier one.
  template <typename Plan, typename... Parameters, typename... Arguments>
  int Launch(void (*kernel)(Parameters...), const Plan& plan,
             const Arguments&... arguments) const {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                            dim3(static_cast<unsigned>(plan.blocks)),
                            dim3(kThreadsPerBlock), pointers, /*sharedMem=*/0, stream_);
  }

  cudaStream_t stream_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_CUDA_BACKEND_CUH_
