// What every op's plan and launch share: what an element is, how large a launch may
// be, and how an error comes back.

#ifndef JAX_UPSAMPLE_LAUNCH_H_
#define JAX_UPSAMPLE_LAUNCH_H_

#include <cstdint>

struct CUstream_st;  // what a cudaStream_t points to

namespace jax_upsample {

enum class Direction { kForward, kBackward };

// The formats that the backward sums, in the order of number_formats.h.
enum class Format {
  kNone,
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E3M4,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat8E4M3Fn,
  kFloat8E4M3Fnuz,
  kFloat8E4M3B11Fnuz,
  kFloat8E5M2Fnuz,
};

// What an array element is to the kernels: the forward copies `bytes` bytes,
// the backward sums `components` numbers of `format` (two for a complex
// number).
struct Element {
  int bytes;
  Format format;
  int components;
};

constexpr int kVectorBytes = 16;  // the widest single access of a GPU thread
constexpr int kThreadsPerBlock = 256;
constexpr int64_t kMaxBlocks = 2147483647;  // CUDA's limit on gridDim.x

// Counts up to here are divided in 32 bits (host_device.h); the compile-time forms of
// a body exist for those only.
constexpr int64_t kMax32BitCount = (int64_t{1} << 31) - 1;

// The largest power of two up to `at_most`, itself one, that divides n.
inline int PowerOfTwoDivisor(int64_t n, int64_t at_most) {
  int64_t divisor = at_most;
  while (n % divisor != 0) divisor /= 2;
  return static_cast<int>(divisor);
}

// Where an op runs: on the calling thread; or, a CUstream_st*, on a stream.
struct HostThread {};

// A plan that names no kernel: cannot happen with a plan of a planner.
constexpr int kNoSuchKernel = -1;

// Of the CUDA build: a CUDA error in words, and the compute capabilities, times
// 10, that the kernels are compiled for, 0 terminated.
const char* CudaErrorText(int error);
const int* CudaArchitectures();

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_LAUNCH_H_
