// Nearest neighbours between any two sizes, and the transpose.
//
// Up to three axes change size, wherever they stand. What lies between them merges
// into runs:
//
//   forward   target[o0, j0, o1, j1, o2, j2, inner] =
//                 source[o0, t0[j0], o1, t1[j1], o2, t2[j2], inner]
//   backward  source[o0, i0, o1, i1, o2, i2, inner] = sum of
//                 target[o0, j0, o1, j1, o2, j2, inner]
//                 over fk[ik] <= jk < fk[ik + 1] for k = 0, 1, 2
//
// The tables t (int32, one entry a target index) and f (one entry a source index, and
// one more) come from the caller: no kernel knows a rule. Every rule is monotone, so
// that the target indices of a source index are a range and f holds its bounds.
// "source" is the operand of the forward and the result of the backward.

#ifndef JAX_UPSAMPLE_RESIZE_NEAREST_H_
#define JAX_UPSAMPLE_RESIZE_NEAREST_H_

#include <cstdint>

#include "launch.h"

namespace jax_upsample {

// The array equation above, in elements. An axis that does not change has no table.
struct ResizeExtents {
  int64_t outer[3] = {1, 1, 1};
  int64_t source[3] = {1, 1, 1};
  int64_t target[3] = {1, 1, 1};
  int64_t inner = 1;
  const int32_t* table[3] = {nullptr, nullptr, nullptr};

  int64_t SourceCount() const { return Count(source); }
  int64_t TargetCount() const { return Count(target); }

 private:
  int64_t Count(const int64_t (&size)[3]) const {
    return outer[0] * size[0] * outer[1] * size[1] * outer[2] * size[2] * inner;
  }
};

// Merges `rank` dimensions; tables[d] is null where d does not change.
ResizeExtents MergeResizeDimensions(const int64_t* source, const int64_t* target,
                                    const int32_t* const* tables, int rank);

// Which kernel runs and how wide, a pure function of the problem. One work item is
// `stored` neighbours of a row of the written array, in up to `rows_per_item`
// consecutive rows along axis 1. Rows are runs of [axis 2, inner].
struct ResizePlan {
  Direction direction;
  ResizeExtents extents;  // with `inner` in units (forward) or numbers (backward)
  Format format;          // backward only
  int unit_bytes;
  int stored;       // constant: template argument of the kernel, as are the next two
  bool contiguous;  // inner == 1
  bool wide_index;  // 64-bit work-item arithmetic
  int rows_per_item;
  int64_t items;
  int64_t blocks;
  int64_t bytes_read;
  int64_t bytes_written;
};

// `alignment` is a power of two that divides both arrays' addresses.
ResizePlan PlanResizeNearestFwd(ResizeExtents extents, Element element,
                                int64_t alignment);
ResizePlan PlanResizeNearestBwd(ResizeExtents extents, Element element,
                                int64_t alignment);

// Run a plan on the calling thread, or enqueue it on a CUDA stream. They return
// 0, or the CUDA error of the launch, or kNoSuchKernel.
int RunResizeNearestFwd(const ResizePlan& plan, const void* source, void* target,
                        HostThread);
int RunResizeNearestBwd(const ResizePlan& plan, const void* target, void* source,
                        HostThread);
int RunResizeNearestFwd(const ResizePlan& plan, const void* source, void* target,
                        CUstream_st* stream);
int RunResizeNearestBwd(const ResizePlan& plan, const void* target, void* source,
                        CUstream_st* stream);

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_RESIZE_NEAREST_H_
