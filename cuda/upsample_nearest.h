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
// other one, which may be part of a larger array still: of a concatenation.

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_H_

#include <cstdint>
#include <string>

#include "launch.h"

namespace jax_upsample {

// The array equation above, in elements.
struct Extents {
  int64_t size[3] = {1, 1, 1};
  int64_t scale[3] = {1, 1, 1};
  int64_t inner = 1;

  // From a column of the large array to the next, and from a step of its axis 0 to the
  // next in rows: `inner` and size[1] scale[1], more in a part of a larger array.
  int64_t large_inner = 1;
  int64_t large_rows = 1;

  int64_t SmallCount() const { return size[0] * size[1] * size[2] * inner; }
  int64_t LargeCount() const { return SmallCount() * scale[0] * scale[1] * scale[2]; }
};

// Merges the small array's `rank` dimensions; scales[d] is 1 where d does not
// change.
Extents MergeDimensions(const int64_t* dims, const int64_t* scales, int rank);

// The same where the large array is part of one that is `concatenated` long along
// `axis`, which does not change. False if the equation cannot say so: where `axis` stands
// between two that change, before three, or after three but not next to them.
bool MergeDimensionsOfPart(const int64_t* dims, const int64_t* scales, int rank,
                           int axis, int64_t concatenated, Extents* extents);

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

// `alignment` is a power of two that divides both addresses, and the distances of the
// parts of a larger array in bytes; 16 is as good as more. `may_be_flat` says that the
// caller can run flat plans.
Plan PlanUpsampleNearestFwd(Extents extents, Element element, int64_t alignment,
                            bool may_be_flat = true);
Plan PlanUpsampleNearestBwd(Extents extents, Element element, int64_t alignment);

// The plan of a whole call: what its handler runs, and what `launch_plan` shows.
Plan PlanUpsampleNearest(Direction direction, const int64_t* dims,
                         const int64_t* scales, int rank, Element element,
                         int64_t alignment);

// Calls visit(name, value) for what describes a launch.
template <typename Visitor>
void VisitFields(const Plan& plan, Visitor visit) {
  visit("unit_bytes", plan.unit_bytes);
  visit("loaded", plan.loaded);
  visit("stored", plan.stored);
  visit("scale_constant", plan.scale_constant);
  visit("rows_constant", plan.rows_constant);
  visit("contiguous", plan.contiguous);
  visit("flat", plan.flat);
  visit("wide_index", plan.wide_index);
  visit("rows_per_item", plan.rows_per_item);
  visit("lanes", plan.lanes);
  visit("lanes_adjacent", plan.lanes_adjacent);
  visit("items", plan.items);
  visit("grid", plan.blocks);
  visit("block", kThreadsPerBlock);
  visit("bytes_read", plan.bytes_read);
  visit("bytes_written", plan.bytes_written);
}

// The kernel body that a plan names, with its template arguments, as a profiler shows it
// between the brackets of ForEachItem<> or SumItems<>. Empty if there is none.
std::string UpsampleNearestKernelName(const Plan& plan);

// Run a plan on the calling thread, or enqueue it on a CUDA stream. They return
// 0, or the CUDA error of the launch, or kNoSuchKernel.
int RunUpsampleNearestFwd(const Plan& plan, const void* small, void* large, HostThread);
int RunUpsampleNearestBwd(const Plan& plan, const void* large, void* small, HostThread);
int RunUpsampleNearestFwd(const Plan& plan, const void* small, void* large,
                          CUstream_st* stream);
int RunUpsampleNearestBwd(const Plan& plan, const void* large, void* small,
                          CUstream_st* stream);

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_H_
