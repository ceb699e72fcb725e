#include "upsample_nearest_ffi.h"

#include <utility>
#include <vector>

#include "ffi_helpers.h"
#include "upsample_nearest.h"

namespace jax_upsample {
namespace {

constexpr const char* OpName(Direction direction) {
  return direction == Direction::kForward ? "upsample_nearest_fwd"
                                          : "upsample_nearest_bwd";
}

}  // namespace

ffi::Error DecodeDimensions(const char* op, Integers dims, Role role, Integers axes,
                            Integers scale, int64_t tiled,
                            std::vector<int64_t>* sizes) {
  sizes->assign(dims.begin(), dims.end());
  if (tiled == 0) return ffi::Error::Success();
  const auto error = [&] {
    return InvalidArgument(op, ": no tiled array of axes ", DimensionsText(axes),
                           " and scale ", DimensionsText(scale), ": ",
                           DimensionsText(dims));
  };
  if (dims.size() < scale.size() || axes.size() != scale.size()) return error();
  const size_t rank = dims.size() - scale.size();
  for (size_t i = 0; i < scale.size(); ++i) {
    const bool is_large = role == Role::kLarge;
    if (dims[rank + i] != (is_large ? scale[i] : 1) || axes[i] < 0 ||
        axes[i] >= static_cast<int64_t>(rank))
      return error();
    int64_t& size = (*sizes)[axes[i]];
    if (is_large && __builtin_mul_overflow(size, scale[i], &size)) return error();
  }
  sizes->resize(rank);
  return ffi::Error::Success();
}

ffi::Error DecodeScales(const char* op, Integers small, Integers large, Integers axes,
                        Integers scale, int64_t element_bytes,
                        std::vector<int64_t>* scales) {
  const auto got = [&] {
    return " (small " + DimensionsText(small) + ", large " + DimensionsText(large) +
           ")";
  };
  const int64_t rank = static_cast<int64_t>(small.size());
  if (small.size() != large.size()) {
    return InvalidArgument(op, ": operand and result must have one rank, got ",
                           small.size(), " and ", large.size(), got());
  }
  if (axes.size() != scale.size() || axes.size() > 3) {
    return InvalidArgument(op,
                           ": axes and scale must have one length of at most 3, got ",
                           axes.size(), " and ", scale.size(), got());
  }
  scales->assign(rank, 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i] <= axes[i - 1])) {
      return InvalidArgument(op, ": axes must increase and lie in [0, ", rank,
                             "), got ", DimensionsText(axes), got());
    }
    if (scale[i] < 1) {
      return InvalidArgument(op, ": scale must be positive, got ",
                             DimensionsText(scale), got());
    }
    (*scales)[axes[i]] = scale[i];
  }
  int64_t bytes = element_bytes;
  bool overflow = false;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t wanted;
    const int64_t factor = (*scales)[d];
    if (small[d] < 0 || __builtin_mul_overflow(small[d], factor, &wanted) ||
        wanted != large[d]) {
      return InvalidArgument(op, ": dimension ", d, " of the large array must be ",
                             factor, " times ", small[d], ", got ", large[d], got());
    }
    overflow |= __builtin_mul_overflow(bytes, large[d], &bytes);
  }
  if (overflow && !IsEmpty(small)) {
    return InvalidArgument(op, ": the large array has 2^63 bytes or more", got());
  }
  return ffi::Error::Success();
}

namespace {

// Checks a call, plans it, and has it run by run(plan).
template <Direction kDirection, typename Run>
ffi::Error Call(ffi::AnyBuffer operand, ffi::AnyBuffer result, Integers axes,
                Integers scale, int64_t tiled, const Run& run) {
  constexpr const char* kOp = OpName(kDirection);
  const Dtype* dtype = nullptr;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDtype(kOp, operand, result, kDirection == Direction::kBackward, &dtype));
  const Element element = dtype->element;
  const bool forward = kDirection == Direction::kForward;
  std::vector<int64_t> small, large, scales;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDimensions(kOp, (forward ? operand : result).dimensions(), Role::kSmall,
                       axes, scale, tiled, &small));
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDimensions(kOp, (forward ? result : operand).dimensions(), Role::kLarge,
                       axes, scale, tiled, &large));
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeScales(kOp, Span(small), Span(large), axes, scale, element.bytes, &scales));
  if (IsEmpty(Span(small))) return ffi::Error::Success();
  int64_t alignment;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeAlignment(
      kOp, element, {operand.untyped_data(), result.untyped_data()}, &alignment));
  const Plan plan =
      PlanUpsampleNearest(kDirection, small.data(), scales.data(),
                          static_cast<int>(scales.size()), element, alignment);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kOp, plan.blocks));
  return RunError(kOp, run(plan));
}

// The buffers and attributes of every handler (upsample_nearest_ffi.h).
template <typename Context>
auto Binding(Context context) {
  return std::move(context)
      .template Arg<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>()
      .template Attr<Integers>("axes")
      .template Attr<Integers>("scale")
      .template Attr<int64_t>("tiled");
}

template <typename Where>
ffi::Error RunFwd(Where where, ffi::AnyBuffer small, ffi::Result<ffi::AnyBuffer> large,
                  Integers axes, Integers scale, int64_t tiled) {
  return Call<Direction::kForward>(
      small, *large, axes, scale, tiled, [&](const Plan& plan) {
        return RunUpsampleNearestFwd(plan, small.untyped_data(), large->untyped_data(),
                                     where);
      });
}

template <typename Where>
ffi::Error RunBwd(Where where, ffi::AnyBuffer large, ffi::Result<ffi::AnyBuffer> small,
                  Integers axes, Integers scale, int64_t tiled) {
  return Call<Direction::kBackward>(
      large, *small, axes, scale, tiled, [&](const Plan& plan) {
        return RunUpsampleNearestBwd(plan, large.untyped_data(), small->untyped_data(),
                                     where);
      });
}

}  // namespace
}  // namespace jax_upsample

JAX_UPSAMPLE_DEFINE_HANDLERS(JaxUpsampleNearestFwd, jax_upsample::RunFwd,
                             jax_upsample::Binding);
JAX_UPSAMPLE_DEFINE_HANDLERS(JaxUpsampleNearestBwd, jax_upsample::RunBwd,
                             jax_upsample::Binding);
