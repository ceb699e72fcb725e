#include "upsample_concat_ffi.h"

#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "ffi_helpers.h"
#include "upsample_concat.h"
#include "upsample_nearest_ffi.h"

namespace jax_upsample {
namespace {

constexpr const char* kFwd = "upsample_concat_fwd";
constexpr const char* kBwd = "upsample_concat_bwd";

// Where the upsampled part of a concatenation lies.
struct Attributes {
  Integers axes;
  Integers scale;
  int64_t tiled;
  int64_t concat_axis;
  int64_t start;
};

// The sizes of one call, checked. Not where `small` is empty.
ffi::Error DecodeExtents(const char* op, Integers small_dims, Integers whole_dims,
                         const Attributes& attributes, int64_t element_bytes,
                         ConcatExtents* extents) {
  const auto [axes, scale, tiled, axis, start] = attributes;
  std::vector<int64_t> small, whole;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDimensions(op, small_dims, Role::kSmall, axes, scale, tiled, &small));
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDimensions(op, whole_dims, Role::kLarge, axes, scale, tiled, &whole));
  const int rank = static_cast<int>(small.size());
  if (whole.size() != small.size() || axis < 0 || axis >= rank || start < 0 ||
      start > whole[axis] - small[axis]) {
    return InvalidArgument(op, ": concat_axis ", axis, " and start ", start,
                           " must lie in the concatenation, got ",
                           DimensionsText(whole_dims), " with a part of ",
                           DimensionsText(small_dims));
  }
  std::vector<int64_t> part(whole.begin(), whole.end()), scales;
  part[axis] = small[axis];
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeScales(op, Span(small), Span(part), axes, scale, element_bytes, &scales));
  int64_t bytes = element_bytes;
  for (const int64_t size : whole) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      return InvalidArgument(op, ": the concatenation has 2^63 bytes or more: ",
                             DimensionsText(whole_dims));
    }
  }
  if (IsEmpty(Span(small))) return ffi::Error::Success();
  if (scales[axis] != 1 ||
      !MergeDimensionsOfPart(small.data(), scales.data(), rank, static_cast<int>(axis),
                             whole[axis], &extents->upsampled)) {
    return InvalidArgument(op, ": no kernel for concat_axis ", axis, " and axes ",
                           DimensionsText(axes));
  }
  const int64_t step = std::accumulate(whole.begin() + axis + 1, whole.end(),
                                       element_bytes, std::multiplies<>());
  extents->period = whole[axis] * step;
  extents->upsampled_at = start * step;
  extents->skip_at = start == 0 ? small[axis] * step : 0;
  extents->skip_part = extents->period - small[axis] * step;
  extents->skip_bytes = bytes / extents->period * extents->skip_part;
  return ffi::Error::Success();
}

// The alignment of a part: of its addresses and its distances.
ffi::Error DecodePartAlignment(const char* op, Element element,
                               std::initializer_list<const void*> buffers,
                               const ConcatExtents& extents, int64_t* alignment) {
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeAlignment(op, element, buffers, alignment));
  for (const int64_t distance :
       {extents.period, extents.upsampled_at, extents.skip_part}) {
    *alignment = PowerOfTwoDivisor(distance, *alignment);
  }
  return ffi::Error::Success();
}

// Check a call, plan it, and have it run by run(plan) or run(plan, part).
template <typename Run>
ffi::Error CallFwd(ffi::AnyBuffer small, ffi::AnyBuffer skip, ffi::AnyBuffer whole,
                   const Attributes& attributes, const Run& run) {
  const Dtype* dtype = nullptr;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDtype(kFwd, small, whole, /*with_sum=*/false, &dtype));
  const Element element = dtype->element;
  ConcatExtents extents;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeExtents(kFwd, small.dimensions(),
                                             whole.dimensions(), attributes,
                                             element.bytes, &extents));
  std::vector<int64_t> wanted(whole.dimensions().begin(), whole.dimensions().end());
  const int64_t axis = attributes.concat_axis;
  wanted[axis] -= small.dimensions()[axis];
  const Integers dims = skip.dimensions();
  if (skip.element_type() != whole.element_type() ||
      !std::equal(dims.begin(), dims.end(), wanted.begin(), wanted.end()) ||
      (attributes.start != 0 && attributes.start != wanted[axis])) {
    return InvalidArgument(kFwd, ": skip must be what the upsampled part leaves, ",
                           DimensionsText(Span(wanted)), " at one end, got ",
                           DimensionsText(dims), " of code ",
                           static_cast<int>(skip.element_type()), " with start ",
                           attributes.start);
  }
  if (IsEmpty(whole.dimensions())) return ffi::Error::Success();
  if (IsEmpty(small.dimensions()) || IsEmpty(dims)) {
    return InvalidArgument(kFwd, ": no operand may be empty, got ",
                           DimensionsText(small.dimensions()), " and ",
                           DimensionsText(dims));
  }
  int64_t alignment;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodePartAlignment(
      kFwd, element, {small.untyped_data(), skip.untyped_data(), whole.untyped_data()},
      extents, &alignment));
  const ConcatPlan plan = PlanUpsampleConcat(extents, element, alignment);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kFwd, plan.blocks));
  return RunError(kFwd, run(plan));
}

template <typename Run>
ffi::Error CallBwd(ffi::AnyBuffer whole, ffi::AnyBuffer small,
                   const Attributes& attributes, const Run& run) {
  const Dtype* dtype = nullptr;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDtype(kBwd, whole, small, /*with_sum=*/true, &dtype));
  const Element element = dtype->element;
  ConcatExtents extents;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeExtents(kBwd, small.dimensions(),
                                             whole.dimensions(), attributes,
                                             element.bytes, &extents));
  if (IsEmpty(small.dimensions())) return ffi::Error::Success();
  int64_t alignment;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodePartAlignment(kBwd, element, {whole.untyped_data(), small.untyped_data()},
                          extents, &alignment));
  const Plan plan = PlanUpsampleNearestBwd(extents.upsampled, element, alignment);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kBwd, plan.blocks));
  const char* part =
      static_cast<const char*>(whole.untyped_data()) + extents.upsampled_at;
  return RunError(kBwd, run(plan, part));
}

template <typename Arguments>
auto WithAttributes(Arguments arguments) {
  return std::move(arguments)
      .template Ret<ffi::AnyBuffer>()
      .template Attr<Integers>("axes")
      .template Attr<Integers>("scale")
      .template Attr<int64_t>("tiled")
      .template Attr<int64_t>("concat_axis")
      .template Attr<int64_t>("start");
}

template <typename Context>
auto BindingFwd(Context context) {
  return WithAttributes(
      std::move(context).template Arg<ffi::AnyBuffer>().template Arg<ffi::AnyBuffer>());
}

template <typename Context>
auto BindingBwd(Context context) {
  return WithAttributes(std::move(context).template Arg<ffi::AnyBuffer>());
}

template <typename Where>
ffi::Error RunFwd(Where where, ffi::AnyBuffer small, ffi::AnyBuffer skip,
                  ffi::Result<ffi::AnyBuffer> whole, Integers axes, Integers scale,
                  int64_t tiled, int64_t concat_axis, int64_t start) {
  return CallFwd(small, skip, *whole, {axes, scale, tiled, concat_axis, start},
                 [&](const ConcatPlan& plan) {
                   return RunUpsampleConcat(plan, small.untyped_data(),
                                            skip.untyped_data(), whole->untyped_data(),
                                            where);
                 });
}

template <typename Where>
ffi::Error RunBwd(Where where, ffi::AnyBuffer whole, ffi::Result<ffi::AnyBuffer> small,
                  Integers axes, Integers scale, int64_t tiled, int64_t concat_axis,
                  int64_t start) {
  return CallBwd(whole, *small, {axes, scale, tiled, concat_axis, start},
                 [&](const Plan& plan, const void* part) {
                   return RunUpsampleNearestBwd(plan, part, small->untyped_data(),
                                                where);
                 });
}

}  // namespace
}  // namespace jax_upsample

JAX_UPSAMPLE_DEFINE_HANDLERS(JaxUpsampleConcatFwd, jax_upsample::RunFwd,
                             jax_upsample::BindingFwd);
JAX_UPSAMPLE_DEFINE_HANDLERS(JaxUpsampleConcatBwd, jax_upsample::RunBwd,
                             jax_upsample::BindingBwd);
