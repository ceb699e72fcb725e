#include <algorithm>
#include <functional>
#include <numeric>

#include "upsample_nearest.h"

namespace jax_upsample {
namespace {

// Beyond this many source rows a thread would store too much by itself.
constexpr int64_t kMaxRowsPerItem = 4;

// A window that large is shared among threads, unless there are so many windows
// that one thread each fills every GPU of today. A lane has a few loads, so
// that they can all be on their way at once.
constexpr int64_t kLargeWindow = 64;
constexpr int64_t kManyItems = 1 << 17;
constexpr int64_t kLoadsPerLane = 4;

int PowerOfTwoAtMost(int64_t n, int at_most) {
  int power = 1;
  while (power < at_most && 2 * power <= n) power *= 2;
  return power;
}

// The last axis' scale where kernels are compiled for it, else 0.
int ScaleConstant(int64_t scale) {
  return 2 <= scale && scale <= 4 ? static_cast<int>(scale) : 0;
}

// Whether any count that a body divides is beyond 32 bits: `items`, the elements of a
// window, and the rows of one step of the outermost axis (upsample_nearest_row_map.h).
bool NeedsWideIndex(const Extents& extents, int64_t items) {
  const int64_t window = extents.scale[0] * extents.scale[1] * extents.scale[2];
  return std::max({items, window, extents.large_rows}) > kMax32BitCount;
}

void Finish(Plan& plan, int64_t items_per_block) {
  plan.blocks = (plan.items + items_per_block - 1) / items_per_block;
}

}  // namespace

Extents MergeDimensions(const int64_t* dims, const int64_t* scales, int rank) {
  Extents extents;
  int scaled = 0;
  for (int d = 0; d < rank; ++d) scaled += scales[d] != 1;
  int axis = 3 - scaled;
  int64_t run = 1;
  for (int d = 0; d < rank; ++d) {
    run *= dims[d];
    if (scales[d] == 1) continue;
    extents.size[axis] = run;
    extents.scale[axis] = scales[d];
    ++axis;
    run = 1;
  }
  extents.inner = extents.large_inner = run;
  extents.large_rows = extents.size[1] * extents.scale[1];
  return extents;
}

bool MergeDimensionsOfPart(const int64_t* dims, const int64_t* scales, int rank,
                           int axis, int64_t concatenated, Extents* extents) {
  const auto product = [&](int begin, int end) {
    return std::accumulate(dims + begin, dims + end, int64_t{1}, std::multiplies<>());
  };
  const auto is_scaled = [](int64_t scale) { return scale != 1; };
  const auto scaled = [&](int begin, int end) {
    return std::count_if(scales + begin, scales + end, is_scaled);
  };
  *extents = MergeDimensions(dims, scales, rank);
  const int64_t before = scaled(0, axis), after = scaled(axis, rank);
  if (after == 0) {
    // Columns are runs of the dimensions from `axis` on; what is between becomes axis 2.
    const int64_t columns = extents->inner / product(axis, rank);
    if (columns != 1) {
      if (before == 3) return false;
      for (const int a : {0, 1}) {
        extents->size[a] = extents->size[a + 1];
        extents->scale[a] = extents->scale[a + 1];
      }
      extents->size[2] = columns;
      extents->scale[2] = 1;
      extents->inner /= columns;
      extents->large_rows = extents->size[1] * extents->scale[1];
    }
    extents->large_inner = extents->inner / dims[axis] * concatenated;
    return true;
  }
  if (after > 2 || before > 0) return false;
  // What is before `axis` becomes axis 0.
  extents->size[0] = product(0, axis);
  if (after == 2) {
    extents->size[1] /= extents->size[0];
  } else {
    const int last = static_cast<int>(
        std::find_if(scales + axis, scales + rank, is_scaled) - scales);
    extents->size[1] = product(axis, last);
    extents->size[2] = dims[last];
  }
  extents->large_rows =
      extents->size[1] * extents->scale[1] / dims[axis] * concatenated;
  return true;
}

Plan PlanUpsampleNearestFwd(Extents extents, Element element, int64_t alignment,
                            bool may_be_flat) {
  Plan plan{};
  plan.direction = Direction::kForward;
  plan.bytes_read = extents.SmallCount() * element.bytes;
  plan.bytes_written = extents.LargeCount() * element.bytes;
  plan.lanes = 1;

  const int64_t inner_bytes = extents.inner * element.bytes;
  plan.unit_bytes =
      PowerOfTwoDivisor(inner_bytes, std::min<int64_t>(alignment, kVectorBytes));
  extents.inner = inner_bytes / plan.unit_bytes;
  extents.large_inner = extents.large_inner * element.bytes / plan.unit_bytes;
  plan.extents = extents;

  const int64_t row_units = extents.size[2] * extents.scale[2] * extents.inner;
  const int64_t window_rows = extents.scale[0] * extents.scale[1];
  plan.rows_per_item = static_cast<int>(std::min(window_rows, kMaxRowsPerItem));
  const int64_t chunks = (window_rows + plan.rows_per_item - 1) / plan.rows_per_item;
  const int64_t row_chunks = extents.size[0] * extents.size[1] * chunks;

  const int vector = kVectorBytes / plan.unit_bytes;
  const bool aligned = alignment % kVectorBytes == 0;
  const bool rows_fit = aligned && row_units % vector == 0;
  const int64_t count = extents.LargeCount();
  const int64_t items = rows_fit ? row_chunks * (row_units / vector) : count;
  plan.wide_index = NeedsWideIndex(extents, std::max(items, row_units));
  plan.stored = 1;
  plan.items = row_chunks * row_units;
  if (aligned && !plan.wide_index && (rows_fit || may_be_flat)) {
    plan.stored = vector;
    plan.flat = !rows_fit;
    plan.scale_constant = plan.flat ? 0 : ScaleConstant(extents.scale[2]);
    plan.contiguous = !plan.flat && extents.inner == 1 && vector > 1;
    plan.items =
        plan.flat ? (count + vector - 1) / vector : row_chunks * (row_units / vector);
  }
  plan.loaded = plan.stored;
  Finish(plan, kThreadsPerBlock);
  return plan;
}

Plan PlanUpsampleNearestBwd(Extents extents, Element element, int64_t alignment) {
  Plan plan{};
  plan.direction = Direction::kBackward;
  plan.bytes_read = extents.LargeCount() * element.bytes;
  plan.bytes_written = extents.SmallCount() * element.bytes;
  plan.rows_per_item = 1;
  plan.format = element.format;
  plan.unit_bytes = element.bytes / element.components;
  extents.inner *= element.components;
  extents.large_inner *= element.components;
  plan.extents = extents;

  const int64_t scale = extents.scale[2];
  const int64_t window = extents.scale[0] * extents.scale[1] * scale;
  const int64_t count = extents.SmallCount();
  const int64_t row = extents.size[2] * extents.inner;
  const int vector = kVectorBytes / plan.unit_bytes;
  const bool aligned = alignment % kVectorBytes == 0;
  const bool one_byte = plan.unit_bytes == 1;  // compiled for scales of run time only
  const bool columns_adjacent = extents.large_inner == 1 && aligned;

  plan.lanes = plan.loaded = plan.stored = 1;
  plan.items = count;
  if (aligned && extents.inner % vector == 0) {
    plan.loaded = plan.stored = vector;
    plan.items = count / vector;
  }
  plan.wide_index = NeedsWideIndex(extents, plan.items);
  const bool share = window >= kLargeWindow && plan.items < kManyItems;
  plan.scale_constant = one_byte || share || plan.wide_index ? 0 : ScaleConstant(scale);
  if (plan.wide_index) {
    plan.loaded = plan.stored = 1;
    plan.items = count;
  } else if (plan.scale_constant == 0) {
    if (columns_adjacent && scale % vector == 0) plan.loaded = vector;
  } else {
    const bool square = extents.scale[0] == 1 && extents.scale[1] == scale;
    plan.rows_constant = square ? plan.scale_constant : 0;
    if (columns_adjacent && row % vector == 0) {
      plan.contiguous = true;
      plan.loaded = plan.stored = vector;
      plan.items = count / vector;
    } else if (columns_adjacent && vector % scale == 0) {
      plan.contiguous = true;
      plan.loaded = plan.scale_constant;
    }
  }
  if (share) {
    // Neighbouring threads read neighbouring memory: along the columns of a window
    // where inner is 1, else along up to four items side by side.
    plan.lanes_adjacent = extents.inner == 1;
    const int beside =
        plan.lanes_adjacent ? 1 : PowerOfTwoAtMost(extents.inner / plan.stored, 4);
    plan.lanes = PowerOfTwoAtMost(window * plan.stored / plan.loaded / kLoadsPerLane,
                                  kThreadsPerBlock / beside);
  }
  Finish(plan, kThreadsPerBlock / plan.lanes);
  return plan;
}

Plan PlanUpsampleNearest(Direction direction, const int64_t* dims,
                         const int64_t* scales, int rank, Element element,
                         int64_t alignment) {
  const Extents extents = MergeDimensions(dims, scales, rank);
  return direction == Direction::kForward
             ? PlanUpsampleNearestFwd(extents, element, alignment)
             : PlanUpsampleNearestBwd(extents, element, alignment);
}

}  // namespace jax_upsample
