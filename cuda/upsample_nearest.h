// Nearest upsampling by integer scales, and its transpose.
//
// Every layout is one array equation. A run of dimensions that do not change merges
// with the scaled dimension after it, so up to three scaled axes, wherever they
// stand, become
//
//   forward   large[n0, s0, n1, s1, n2, s2, inner] = small[n0, 1, n1, 1, n2, 1, inner]
//   backward  small[n0, n1, n2, inner] = sum over s0, s1, s2 of
//             large[n0, s0, n1, s1, n2, s2, inner]
//
// with row-major memory on both sides. NCHW has inner = 1, NHWC has inner = C.
// "small" is the operand of the forward and the result of the backward, "large" the
// other one.

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_H_

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

// The array equation above, in elements.
struct Extents {
  int64_t size[3] = {1, 1, 1};
  int64_t scale[3] = {1, 1, 1};
  int64_t inner = 1;

  int64_t SmallCount() const { return size[0] * size[1] * size[2] * inner; }
  int64_t LargeCount() const { return SmallCount() * scale[0] * scale[1] * scale[2]; }
};

// Merges the small array's `rank` dimensions; scales[d] is 1 where d does not
// change.
Extents MergeDimensions(const int64_t* dims, const int64_t* scales, int rank);

constexpr int kThreadsPerBlock = 256;
constexpr int64_t kMaxBlocks = 2147483647;  // CUDA's limit on gridDim.x

// Which kernel runs and how wide, a pure function of the problem. One work item is
//  forward   `stored` units of `unit_bytes` of a row of the large array, gathered once
//            and stored in up to `rows_per_item` rows; where `flat`, of the whole large
//            array, its rows end to end, and stored once;
//  backward  `stored` numbers of the small array, each the sum of its window, which
//            `lanes` threads take in loads of `loaded` numbers and a fixed order.
// Fields that say "constant" are template arguments of the kernel.
struct Plan {
  Direction direction;
  Extents extents;  // with `inner` in units (forward) or numbers (backward)
  Format format;    // backward only
  int unit_bytes;
  int loaded;
  int stored;
  int scale_constant;  // extents.scale[2], or 0 if the kernel reads it at run
                       // time
  int rows_constant;   // backward: the rows of a window, or 0, likewise
  bool contiguous;     // constant: inner == 1
  bool flat;
  bool wide_index;  // constant: 64-bit work-item arithmetic
  int rows_per_item;
  int lanes;
  bool lanes_adjacent;  // neighbouring threads are lanes of one item, else items
  int64_t items;
  int64_t blocks;
  int64_t bytes_read;
  int64_t bytes_written;
};

// `alignment` is a power of two that divides both addresses; 16 is as good as
// more.
Plan PlanUpsampleNearestFwd(Extents extents, Element element, int64_t alignment);
Plan PlanUpsampleNearestBwd(Extents extents, Element element, int64_t alignment);

// Run a plan on the calling thread, or enqueue it on a CUDA stream. They return
// 0, or the CUDA error of the launch, or kNoSuchKernel.
int RunUpsampleNearestFwd(const Plan& plan, const void* small, void* large);
int RunUpsampleNearestBwd(const Plan& plan, const void* large, void* small);
int LaunchUpsampleNearestFwd(const Plan& plan, const void* small, void* large,
                             CUstream_st* stream);
int LaunchUpsampleNearestBwd(const Plan& plan, const void* large, void* small,
                             CUstream_st* stream);

// Of the CUDA build: a CUDA error in words, and the compute capabilities, times
// 10, that the kernels are compiled for, 0 terminated.
const char* CudaErrorText(int error);
const int* CudaArchitectures();

// A plan that names no kernel: cannot happen with a plan of the functions
// above.
constexpr int kNoSuchKernel = -1;

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_H_
