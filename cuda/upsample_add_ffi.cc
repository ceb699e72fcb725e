#include "upsample_add_ffi.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ffi_helpers.h"
#include "upsample_add.h"
#include "upsample_nearest_ffi.h"

namespace jax_upsample {
namespace {

constexpr const char* kOp = "upsample_add";

// Checks a call, plans it, and has it run by run(plan).
template <typename Run>
ffi::Error Call(ffi::AnyBuffer small, ffi::AnyBuffer lateral, ffi::AnyBuffer large,
                Integers axes, Integers scale, int64_t tiled, const Run& run) {
  const Dtype* dtype = nullptr;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDtype(kOp, small, large, /*with_sum=*/true, &dtype));
  const Integers dims = large.dimensions(), added = lateral.dimensions();
  if (lateral.element_type() != large.element_type() ||
      !std::equal(dims.begin(), dims.end(), added.begin(), added.end())) {
    return InvalidArgument(kOp, ": lateral must be like the result, ",
                           DimensionsText(dims), ", got ", DimensionsText(added),
                           " of code ", static_cast<int>(lateral.element_type()));
  }
  const Element element = dtype->element;
  std::vector<int64_t> of_small, of_large, scales;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeDimensions(kOp, small.dimensions(), Role::kSmall,
                                                axes, scale, tiled, &of_small));
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDimensions(kOp, dims, Role::kLarge, axes, scale, tiled, &of_large));
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeScales(kOp, Span(of_small), Span(of_large), axes,
                                            scale, element.bytes, &scales));
  if (IsEmpty(dims)) return ffi::Error::Success();
  int64_t alignment;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeAlignment(
      kOp, element,
      {small.untyped_data(), lateral.untyped_data(), large.untyped_data()},
      &alignment));
  const Extents extents =
      MergeDimensions(of_small.data(), scales.data(), static_cast<int>(scales.size()));
  const Plan plan = PlanUpsampleAdd(extents, element, alignment);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kOp, plan.blocks));
  return RunError(kOp, run(plan));
}

template <typename Context>
auto Binding(Context context) {
  return std::move(context)
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>()
      .template Attr<Integers>("axes")
      .template Attr<Integers>("scale")
      .template Attr<int64_t>("tiled");
}

template <typename Where>
ffi::Error Run(Where where, ffi::AnyBuffer small, ffi::AnyBuffer lateral,
               ffi::Result<ffi::AnyBuffer> large, Integers axes, Integers scale,
               int64_t tiled) {
  return Call(small, lateral, *large, axes, scale, tiled, [&](const Plan& plan) {
    return RunUpsampleAdd(plan, small.untyped_data(), lateral.untyped_data(),
                          large->untyped_data(), where);
  });
}

}  // namespace
}  // namespace jax_upsample

JAX_UPSAMPLE_DEFINE_HANDLERS(JaxUpsampleAdd, jax_upsample::Run, jax_upsample::Binding);
