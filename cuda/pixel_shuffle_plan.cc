#include "pixel_shuffle.h"

namespace jax_upsample {
namespace {

ShufflePlan PlanInUnits(Direction direction, const ShuffleExtents& extents,
                        int64_t element_bytes, int unit_bytes) {
  ShufflePlan plan{};
  plan.extents = extents;
  plan.extents.inner = extents.inner * element_bytes / unit_bytes;
  plan.unit_bytes = unit_bytes;
  const int64_t packed = plan.extents.PackedCount();
  plan.items = direction == Direction::kForward ? plan.extents.ImageCount() : packed;
  plan.wide_index = packed > kMax32BitCount - kThreadsPerBlock;
  plan.blocks = (plan.items + kThreadsPerBlock - 1) / kThreadsPerBlock;
  return plan;
}

}  // namespace

ShufflePlan PlanPixelShuffle(Direction direction, ShuffleExtents extents,
                             Element element, int64_t alignment) {
  const int unit_bytes = PowerOfTwoDivisor(extents.inner * element.bytes, alignment);
  return PlanInUnits(direction, extents, element.bytes, unit_bytes);
}

ShufflePlan PlanPixelShuffleSum(ShuffleExtents extents, Element element,
                                int64_t alignment) {
  int unit_bytes = PowerOfTwoDivisor(extents.inner * element.bytes, alignment);
  if (unit_bytes != kVectorBytes) unit_bytes = element.bytes;
  ShufflePlan plan =
      PlanInUnits(Direction::kForward, extents, element.bytes, unit_bytes);
  plan.format = element.format;
  return plan;
}

}  // namespace jax_upsample
