// From a plan to the kernel body that it names, once for every backend (dispatch.h).

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_DISPATCH_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_DISPATCH_H_

#include <type_traits>

#include "dispatch.h"
#include "upsample_nearest.h"
#include "upsample_nearest_bwd_body.h"
#include "upsample_nearest_fwd_body.h"

namespace jax_upsample {

template <typename Visitor>
int WithScale(int scale_constant, Visitor visit) {
  switch (scale_constant) {
    case 0:
      return visit(Constant<0>());
    case 2:
      return visit(Constant<2>());
    case 3:
      return visit(Constant<3>());
    case 4:
      return visit(Constant<4>());
    default:
      return kNoSuchKernel;
  }
}

// Every forward plan that is not flat.
template <typename Backend>
int DispatchUpsampleNearestRows(const Plan& plan, const void* small, void* large,
                                const Backend& backend) {
  const CopyTarget target(large);
  return WithUnitBytes(plan.unit_bytes, [&](auto unit_bytes) {
    constexpr int kUnitBytes = decltype(unit_bytes)::value;
    constexpr int kUnits = kVectorBytes / kUnitBytes;
    if (plan.wide_index) {
      return backend.ForEachItem(
          UpsampleNearestFwd<kUnitBytes, 1, 0, false, uint64_t>(plan, small, target),
          plan);
    }
    if (plan.stored != kUnits) {
      return backend.ForEachItem(
          UpsampleNearestFwd<kUnitBytes, 1, 0, false, uint32_t>(plan, small, target),
          plan);
    }
    return WithScale(plan.scale_constant, [&](auto scale) {
      constexpr int kScale = decltype(scale)::value;
      if constexpr (kUnits > 1) {
        if (plan.contiguous) {
          return backend.ForEachItem(
              UpsampleNearestFwd<kUnitBytes, kUnits, kScale, true, uint32_t>(
                  plan, small, target),
              plan);
        }
      }
      return backend.ForEachItem(
          UpsampleNearestFwd<kUnitBytes, kUnits, kScale, false, uint32_t>(plan, small,
                                                                          target),
          plan);
    });
  });
}

template <typename Backend>
int DispatchUpsampleNearestFwd(const Plan& plan, const void* small, void* large,
                               const Backend& backend) {
  if (!plan.flat) return DispatchUpsampleNearestRows(plan, small, large, backend);
  return WithUnitBytes(plan.unit_bytes, [&](auto unit_bytes) {
    constexpr int kUnitBytes = decltype(unit_bytes)::value;
    constexpr int kUnits = kVectorBytes / kUnitBytes;
    if constexpr (kUnits == 1) {
      return kNoSuchKernel;
    } else {
      return backend.ForEachItem(
          UpsampleNearestFwdFlat<kUnitBytes, kUnits, uint32_t>(plan, small, large),
          plan);
    }
  });
}

// Scales of run time, and windows shared among lanes.
template <typename FormatT, typename Backend>
int DispatchUpsampleNearestBwdLanes(const Plan& plan, const void* large, void* small,
                                    const Backend& backend) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(typename FormatT::Bits));
  if (plan.wide_index) {
    return backend.SumItems(
        UpsampleNearestBwdLanes<FormatT, 1, 1, uint64_t>(plan, large, small), plan);
  }
  if (plan.loaded == 1) {
    return backend.SumItems(
        UpsampleNearestBwdLanes<FormatT, 1, 1, uint32_t>(plan, large, small), plan);
  }
  if (plan.stored == 1) {
    return backend.SumItems(
        UpsampleNearestBwdLanes<FormatT, kVector, 1, uint32_t>(plan, large, small),
        plan);
  }
  return backend.SumItems(
      UpsampleNearestBwdLanes<FormatT, kVector, kVector, uint32_t>(plan, large, small),
      plan);
}

template <typename FormatT, int kScale, int kRows, typename Backend>
int DispatchUpsampleNearestBwdConstant(const Plan& plan, const void* large, void* small,
                                       const Backend& backend) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(typename FormatT::Bits));
  const auto run = [&](auto loaded, auto stored, auto contiguous) {
    return backend.ForEachItem(
        UpsampleNearestBwd<FormatT, decltype(loaded)::value, decltype(stored)::value,
                           kRows, kScale, decltype(contiguous)::value, uint32_t>(
            plan, large, small),
        plan);
  };
  if (plan.stored == kVector) {
    return plan.contiguous
               ? run(Constant<kVector>(), Constant<kVector>(), std::true_type())
               : run(Constant<kVector>(), Constant<kVector>(), std::false_type());
  }
  if constexpr (kVector % kScale == 0) {
    if (plan.contiguous)
      return run(Constant<kScale>(), Constant<1>(), std::true_type());
  }
  return run(Constant<1>(), Constant<1>(), std::false_type());
}

template <typename FormatT, typename Backend>
int DispatchUpsampleNearestBwdFormat(const Plan& plan, const void* large, void* small,
                                     const Backend& backend) {
  return WithScale(plan.scale_constant, [&](auto scale) {
    constexpr int kScale = decltype(scale)::value;
    if constexpr (kScale == 0) {
      return DispatchUpsampleNearestBwdLanes<FormatT>(plan, large, small, backend);
    } else if constexpr (sizeof(typename FormatT::Bits) == 1) {
      return kNoSuchKernel;
    } else if (plan.rows_constant == kScale) {
      return DispatchUpsampleNearestBwdConstant<FormatT, kScale, kScale>(
          plan, large, small, backend);
    } else {
      return DispatchUpsampleNearestBwdConstant<FormatT, kScale, 0>(plan, large, small,
                                                                    backend);
    }
  });
}

template <typename Backend>
int DispatchUpsampleNearestBwd(const Plan& plan, const void* large, void* small,
                               const Backend& backend) {
  return WithFormat(plan.format, [&](auto format) {
    return DispatchUpsampleNearestBwdFormat<typename decltype(format)::type>(
        plan, large, small, backend);
  });
}

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_DISPATCH_H_
