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
  const auto blocks_of = [](int64_t items) {
    return (items + kThreadsPerBlock - 1) / kThreadsPerBlock;
  };
  // Twice a block for what the last ones lack.
  if (upsampled.items + vectors_of_skip() > kMax32BitCount - 2 * kThreadsPerBlock) {
    upsampled.wide_index = true;
    upsampled.items *= upsampled.stored;
    upsampled.stored = upsampled.loaded = 1;
    upsampled.scale_constant = 0;
    upsampled.contiguous = false;
  }
  plan.skip_vectors = vectors_of_skip();
  const int64_t upsample_blocks = blocks_of(upsampled.items);
  plan.blocks = upsample_blocks + blocks_of(plan.skip_vectors);
  plan.items = plan.blocks * kThreadsPerBlock;
  // Rounded up, so that all blocks hold all of `upsampled`: the error stays below one
  // for less than 2^32 blocks.
  if (plan.blocks <= kMaxBlocks) {
    const uint64_t shifted = static_cast<uint64_t>(upsample_blocks) << 32;
    plan.upsample_share = (shifted + plan.blocks - 1) / plan.blocks;
  }
  return plan;
}

}  // namespace jax_upsample
