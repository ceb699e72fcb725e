#include "upsample_add.h"

namespace jax_upsample {

Plan PlanUpsampleAdd(Extents extents, Element element, int64_t alignment) {
  const Element number = {element.bytes / element.components, element.format, 1};
  extents.inner *= element.components;
  extents.large_inner *= element.components;
  const auto plan_with = [&](int64_t alignment) {
    return PlanUpsampleNearestFwd(extents, number, alignment, /*may_be_flat=*/false);
  };
  Plan plan = plan_with(alignment);
  const bool vectors = plan.unit_bytes == kVectorBytes ||
                       (plan.contiguous && plan.unit_bytes == number.bytes);
  if (!vectors || plan.wide_index) plan = plan_with(number.bytes);
  plan.format = element.format;
  plan.bytes_read += plan.bytes_written;
  return plan;
}

}  // namespace jax_upsample
