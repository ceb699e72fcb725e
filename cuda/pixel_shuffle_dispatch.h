// From a plan to the kernel body that it names, once for every backend (dispatch.h).

#ifndef JAX_UPSAMPLE_PIXEL_SHUFFLE_DISPATCH_H_
#define JAX_UPSAMPLE_PIXEL_SHUFFLE_DISPATCH_H_

#include "dispatch.h"
#include "pixel_shuffle.h"
#include "pixel_shuffle_body.h"

namespace jax_upsample {

template <typename Visitor>
int WithShuffleUnits(const ShufflePlan& plan, Visitor visit) {
  return WithUnitBytes(plan.unit_bytes, [&](auto unit_bytes) {
    return plan.wide_index ? visit(unit_bytes, uint64_t())
                           : visit(unit_bytes, uint32_t());
  });
}

template <typename Backend>
int DispatchPixelShuffleFwd(const ShufflePlan& plan, const void* packed, void* image,
                            const Backend& backend) {
  return WithShuffleUnits(plan, [&](auto unit_bytes, auto index) {
    using Body =
        PixelShuffleFwd<decltype(unit_bytes)::value, decltype(index), CopyUnit>;
    return backend.ForEachItem(Body(plan, packed, image, CopyUnit()), plan);
  });
}

template <typename Backend>
int DispatchPixelShuffleBwd(const ShufflePlan& plan, const void* image, void* packed,
                            const Backend& backend) {
  return WithShuffleUnits(plan, [&](auto unit_bytes, auto index) {
    using Body = PixelShuffleBwd<decltype(unit_bytes)::value, decltype(index)>;
    return backend.ForEachItem(Body(plan, image, packed), plan);
  });
}

template <typename FormatT, typename Backend>
int DispatchPixelShuffleSumFormat(const ShufflePlan& plan, const void* packed,
                                  const ShuffleSum& sum, void* image,
                                  const Backend& backend) {
  const auto run = [&](auto unit_bytes, auto index) {
    using Finish = AddAndActivate<FormatT>;
    using Body = PixelShuffleFwd<decltype(unit_bytes)::value, decltype(index), Finish>;
    return backend.ForEachItem(Body(plan, packed, image, Finish(sum)), plan);
  };
  constexpr int kNumber = static_cast<int>(sizeof(typename FormatT::Bits));
  if (plan.unit_bytes == kVectorBytes) {
    return plan.wide_index ? run(Constant<kVectorBytes>(), uint64_t())
                           : run(Constant<kVectorBytes>(), uint32_t());
  }
  if (plan.unit_bytes != kNumber) return kNoSuchKernel;
  return plan.wide_index ? run(Constant<kNumber>(), uint64_t())
                         : run(Constant<kNumber>(), uint32_t());
}

template <typename Backend>
int DispatchPixelShuffleSum(const ShufflePlan& plan, const void* packed,
                            const ShuffleSum& sum, void* image,
                            const Backend& backend) {
  const auto run = [&](auto format) {
    return DispatchPixelShuffleSumFormat<typename decltype(format)::type>(
        plan, packed, sum, image, backend);
  };
  switch (plan.format) {
    case Format::kFloat32:
      return run(Type<Float32>());
    case Format::kFloat16:
      return run(Type<Float16>());
    case Format::kBFloat16:
      return run(Type<BFloat16>());
    default:
      return kNoSuchKernel;
  }
}

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_PIXEL_SHUFFLE_DISPATCH_H_
