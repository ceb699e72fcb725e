// From a plan to the kernel body that it names, once for every backend (dispatch.h).

#ifndef JAX_UPSAMPLE_UPSAMPLE_ADD_DISPATCH_H_
#define JAX_UPSAMPLE_UPSAMPLE_ADD_DISPATCH_H_

#include "upsample_add.h"
#include "upsample_add_body.h"
#include "upsample_nearest_dispatch.h"

namespace jax_upsample {

template <typename FormatT, typename Backend>
int DispatchUpsampleAddFormat(const Plan& plan, const void* small, const void* lateral,
                              void* large, const Backend& backend) {
  constexpr int kNumber = static_cast<int>(sizeof(typename FormatT::Bits));
  const AddTarget<FormatT> target(lateral, large);
  const auto run = [&](auto unit_bytes, auto units, auto scale, auto contiguous,
                       auto index) {
    using Body = UpsampleNearestFwd<decltype(unit_bytes)::value, decltype(units)::value,
                                    decltype(scale)::value, decltype(contiguous)::value,
                                    decltype(index), AddTarget<FormatT>>;
    return backend.ForEachItem(Body(plan, small, target), plan);
  };
  if (plan.wide_index) {
    return run(Constant<kNumber>(), Constant<1>(), Constant<0>(), std::false_type(),
               uint64_t());
  }
  if (plan.unit_bytes == kNumber && plan.stored == 1) {
    return run(Constant<kNumber>(), Constant<1>(), Constant<0>(), std::false_type(),
               uint32_t());
  }
  return WithScale(plan.scale_constant, [&](auto scale) {
    if (plan.unit_bytes == kVectorBytes) {
      return run(Constant<kVectorBytes>(), Constant<1>(), scale, std::false_type(),
                 uint32_t());
    }
    if (plan.unit_bytes != kNumber) return kNoSuchKernel;
    return run(Constant<kNumber>(), Constant<kVectorBytes / kNumber>(), scale,
               std::true_type(), uint32_t());
  });
}

template <typename Backend>
int DispatchUpsampleAdd(const Plan& plan, const void* small, const void* lateral,
                        void* large, const Backend& backend) {
  return WithFormat(plan.format, [&](auto format) {
    return DispatchUpsampleAddFormat<typename decltype(format)::type>(
        plan, small, lateral, large, backend);
  });
}

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_ADD_DISPATCH_H_
