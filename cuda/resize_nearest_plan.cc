#include <algorithm>

#include "resize_nearest.h"

namespace jax_upsample {
namespace {

// Rows of one item share its column arithmetic and have their loads on their way
// together, as long as the items still fill every GPU of today.
constexpr int kMaxRowsPerItem = 4;
constexpr int64_t kManyItems = int64_t{1} << 18;

bool NeedsWideIndex(const ResizeExtents& extents) {
  return std::max(extents.SourceCount(), extents.TargetCount()) > kMax32BitCount;
}

// Rows, items and blocks, for `rows` along axis 1 in each of `planes`, and `columns`
// items side by side in a row.
void Finish(ResizePlan& plan, int max_rows, int64_t planes, int64_t rows,
            int64_t columns) {
  const int64_t beside = planes * plan.extents.outer[2] * columns;
  plan.rows_per_item = max_rows;
  while (plan.rows_per_item > 1 &&
         (rows < plan.rows_per_item ||
          beside * (rows / plan.rows_per_item) < kManyItems)) {
    plan.rows_per_item /= 2;
  }
  const int64_t chunks = (rows + plan.rows_per_item - 1) / plan.rows_per_item;
  plan.items = beside * chunks;
  plan.blocks = (plan.items + kThreadsPerBlock - 1) / kThreadsPerBlock;
}

}  // namespace

ResizeExtents MergeResizeDimensions(const int64_t* source, const int64_t* target,
                                    const int32_t* const* tables, int rank) {
  ResizeExtents extents;
  int changed = 0;
  for (int d = 0; d < rank; ++d) changed += tables[d] != nullptr;
  int axis = 3 - changed;
  int64_t run = 1;
  for (int d = 0; d < rank; ++d) {
    if (tables[d] == nullptr) {
      run *= source[d];
      continue;
    }
    if (changed == 1) {
      // Rows that do not change are still rows to share column arithmetic among.
      extents.source[1] = extents.target[1] = run;
    } else {
      extents.outer[axis] = run;
    }
    extents.source[axis] = source[d];
    extents.target[axis] = target[d];
    extents.table[axis] = tables[d];
    ++axis;
    run = 1;
  }
  extents.inner = run;
  return extents;
}

ResizePlan PlanResizeNearestFwd(ResizeExtents extents, Element element,
                                int64_t alignment) {
  ResizePlan plan{};
  plan.direction = Direction::kForward;
  // At most: downsampling skips source elements.
  plan.bytes_read =
      std::min(extents.SourceCount(), extents.TargetCount()) * element.bytes;
  plan.bytes_written = extents.TargetCount() * element.bytes;
  plan.wide_index = NeedsWideIndex(extents);

  const int64_t inner_bytes = extents.inner * element.bytes;
  const int64_t widest = std::min<int64_t>(alignment, kVectorBytes);
  plan.unit_bytes = PowerOfTwoDivisor(inner_bytes, widest);
  extents.inner = inner_bytes / plan.unit_bytes;
  plan.extents = extents;
  const int64_t row_units = extents.target[2] * extents.inner;
  plan.stored =
      plan.wide_index ? 1 : PowerOfTwoDivisor(row_units, widest / plan.unit_bytes);
  plan.contiguous = extents.inner == 1 && !plan.wide_index;
  Finish(plan, kMaxRowsPerItem, extents.outer[0] * extents.target[0] * extents.outer[1],
         extents.target[1], row_units / plan.stored);
  return plan;
}

ResizePlan PlanResizeNearestBwd(ResizeExtents extents, Element element,
                                int64_t alignment) {
  ResizePlan plan{};
  plan.direction = Direction::kBackward;
  plan.bytes_read = extents.TargetCount() * element.bytes;
  plan.bytes_written = extents.SourceCount() * element.bytes;
  plan.wide_index = NeedsWideIndex(extents);
  plan.format = element.format;
  plan.unit_bytes = element.bytes / element.components;
  extents.inner *= element.components;
  plan.extents = extents;

  const int vector = kVectorBytes / plan.unit_bytes;
  const bool whole = alignment % kVectorBytes == 0 && extents.inner % vector == 0;
  plan.stored = whole && !plan.wide_index ? vector : 1;
  plan.contiguous = extents.inner == 1 && !plan.wide_index;
  // Several rows are summed in one pass, which several planes cannot be
  // (resize_nearest_bwd_body.h).
  Finish(plan, extents.table[0] == nullptr ? kMaxRowsPerItem : 1,
         extents.outer[0] * extents.source[0] * extents.outer[1], extents.source[1],
         extents.source[2] * extents.inner / plan.stored);
  return plan;
}

}  // namespace jax_upsample
