#include "upsample_concat.h"

namespace jax_upsample {

ConcatPlan PlanUpsampleConcat(const ConcatExtents& extents, Element element,
                              int64_t alignment) {
  ConcatPlan plan{};
  plan.extents = extents;
  Plan& upsampled = plan.upsampled;
  upsampled = PlanUpsampleNearestFwd(extents.upsampled, element, alignment,
                                     /*may_be_flat=*/false);
  const auto vectors_of_skip = [&] {
    return extents.skip_bytes / (upsampled.unit_bytes * upsampled.stored);
  };
  if (upsampled.items + vectors_of_skip() > kMax32BitCount) {
    upsampled.wide_index = true;
    upsampled.items *= upsampled.stored;
    upsampled.stored = upsampled.loaded = 1;
    upsampled.scale_constant = 0;
    upsampled.contiguous = false;
  }
  plan.items = upsampled.items + vectors_of_skip();
  plan.blocks = (plan.items + kThreadsPerBlock - 1) / kThreadsPerBlock;
  return plan;
}

}  // namespace jax_upsample
