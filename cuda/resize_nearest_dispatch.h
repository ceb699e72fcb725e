// From a plan to the kernel body that it names, once for every backend (dispatch.h).

#ifndef JAX_UPSAMPLE_RESIZE_NEAREST_DISPATCH_H_
#define JAX_UPSAMPLE_RESIZE_NEAREST_DISPATCH_H_

#include "dispatch.h"
#include "resize_nearest.h"
#include "resize_nearest_bwd_body.h"
#include "resize_nearest_fwd_body.h"

namespace jax_upsample {

template <typename Backend>
int DispatchResizeNearestFwd(const ResizePlan& plan, const void* source, void* target,
                             const Backend& backend) {
  return WithUnitBytes(plan.unit_bytes, [&](auto unit_bytes) {
    constexpr int kUnitBytes = decltype(unit_bytes)::value;
    if (plan.wide_index) {
      return backend.ForEachItem(
          ResizeNearestFwd<kUnitBytes, 1, false, uint64_t>(plan, source, target), plan);
    }
    // WithUnitBytes again: it counts 1, 2, 4, 8, 16, which is what `stored` is.
    return WithUnitBytes(plan.stored, [&](auto stored) {
      constexpr int kUnits = decltype(stored)::value;
      if constexpr (kUnitBytes * kUnits > kVectorBytes) {
        return kNoSuchKernel;
      } else if (plan.contiguous) {
        return backend.ForEachItem(
            ResizeNearestFwd<kUnitBytes, kUnits, true, uint32_t>(plan, source, target),
            plan);
      } else {
        return backend.ForEachItem(
            ResizeNearestFwd<kUnitBytes, kUnits, false, uint32_t>(plan, source, target),
            plan);
      }
    });
  });
}

template <typename Backend>
int DispatchResizeNearestBwd(const ResizePlan& plan, const void* target, void* source,
                             const Backend& backend) {
  return WithFormat(plan.format, [&](auto format) {
    using FormatT = typename decltype(format)::type;
    constexpr int kVector =
        kVectorBytes / static_cast<int>(sizeof(typename FormatT::Bits));
    if (plan.wide_index) {
      return backend.ForEachItem(
          ResizeNearestBwd<FormatT, 1, false, uint64_t>(plan, target, source), plan);
    }
    if (plan.stored == kVector) {
      return backend.ForEachItem(
          ResizeNearestBwd<FormatT, kVector, false, uint32_t>(plan, target, source),
          plan);
    }
    if (plan.contiguous) {
      return backend.ForEachItem(
          ResizeNearestBwd<FormatT, 1, true, uint32_t>(plan, target, source), plan);
    }
    return backend.ForEachItem(
        ResizeNearestBwd<FormatT, 1, false, uint32_t>(plan, target, source), plan);
  });
}

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_RESIZE_NEAREST_DISPATCH_H_
