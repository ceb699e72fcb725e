#include "pixel_shuffle_ffi.h"

#include <algorithm>
#include <utility>

#include "ffi_helpers.h"
#include "pixel_shuffle.h"

namespace jax_upsample {
namespace {

constexpr const char* kFwd = "pixel_shuffle_fwd";
constexpr const char* kBwd = "pixel_shuffle_bwd";
constexpr const char* kSum = "pixel_shuffle_sum";

struct Attributes {
  Integers axes;
  Integers scale;
  Integers first;
};

// The array equation of one call, all sizes checked.
ffi::Error DecodeExtents(const char* op, Integers packed, Integers image,
                         const Attributes& attributes, int64_t element_bytes,
                         ShuffleExtents* extents) {
  const auto [axes, scale, first] = attributes;
  const auto got = [&] {
    return " (packed " + DimensionsText(packed) + ", image " + DimensionsText(image) +
           ")";
  };
  const size_t count = axes.size();
  if (count < 1 || count > 3 || scale.size() != count || first.size() != count) {
    return InvalidArgument(
        op, ": axes, scale and first must have one length of 1 to 3, got ", count, ", ",
        scale.size(), " and ", first.size(), got());
  }
  if (packed.size() != image.size() || axes[0] < 0 ||
      axes[0] >= static_cast<int64_t>(packed.size()) ||
      packed.size() - axes[0] <= count) {
    return InvalidArgument(op, ": operand and result must have one rank, with ", count,
                           " axes and that of the channels from axes[0] = ", axes[0],
                           " on", got());
  }
  int64_t bytes = element_bytes, window = 1;
  bool overflow = false;
  const auto multiply = [&](int64_t& product, int64_t factor) {
    overflow |= __builtin_mul_overflow(product, factor, &product);
  };
  const size_t begin = axes[0], channel = begin + count;
  for (size_t i = 0; i < count; ++i) {
    if (axes[i] != static_cast<int64_t>(begin + i)) {
      return InvalidArgument(op, ": axes must be consecutive, got ",
                             DimensionsText(axes), got());
    }
    int64_t reach;
    if (scale[i] < 1 || first[i] < 0 ||
        __builtin_mul_overflow(packed[begin + i], scale[i], &reach) ||
        first[i] > reach - image[begin + i]) {
      return InvalidArgument(op, ": no element ", first[i], " + ", image[begin + i] - 1,
                             " along axis ", axes[i], " of scale ", scale[i], got());
    }
    const int k = static_cast<int>(3 - count + i);
    extents->positions[k] = packed[begin + i];
    extents->scale[k] = scale[i];
    extents->first[k] = first[i];
    extents->size[k] = image[begin + i];
    multiply(window, scale[i]);
  }
  int64_t channels = image[channel];
  multiply(channels, window);
  if (overflow || packed[channel] != channels) {
    return InvalidArgument(op,
                           ": the channels of packed must be those of the image "
                           "times the product of scale ",
                           DimensionsText(scale), got());
  }
  for (size_t d = 0; d < packed.size(); ++d) {
    const bool is_free = d < begin || d > channel;
    if (is_free && packed[d] != image[d]) {
      return InvalidArgument(op, ": dimension ", d, " must be one in both", got());
    }
    if (d < begin) extents->outer *= packed[d];
    if (d >= channel) extents->inner *= image[d];
    multiply(bytes, packed[d]);
  }
  if (overflow && !IsEmpty(packed)) {
    return InvalidArgument(op, ": packed has 2^63 bytes or more", got());
  }
  return ffi::Error::Success();
}

// Checks a call, plans it, and has it run by run(plan).
template <Direction kDirection, typename Run>
ffi::Error Call(ffi::AnyBuffer operand, ffi::AnyBuffer result,
                const Attributes& attributes, const Run& run) {
  constexpr bool kForward = kDirection == Direction::kForward;
  constexpr const char* kOp = kForward ? kFwd : kBwd;
  const Dtype* dtype = nullptr;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDtype(kOp, operand, result, /*with_sum=*/false, &dtype));
  const Element element = dtype->element;
  ShuffleExtents extents;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeExtents(
      kOp, (kForward ? operand : result).dimensions(),
      (kForward ? result : operand).dimensions(), attributes, element.bytes, &extents));
  if (IsEmpty(result.dimensions())) return ffi::Error::Success();
  int64_t alignment = kVectorBytes;
  // Of an empty image, whose transpose is zeros, no address is needed.
  const void* source =
      IsEmpty(operand.dimensions()) ? result.untyped_data() : operand.untyped_data();
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeAlignment(kOp, element, {source, result.untyped_data()}, &alignment));
  const ShufflePlan plan = PlanPixelShuffle(kDirection, extents, element, alignment);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kOp, plan.blocks));
  return RunError(kOp, run(plan));
}

template <typename Run>
ffi::Error CallSum(ffi::AnyBuffer packed, ffi::AnyBuffer bias, ffi::RemainingArgs rest,
                   ffi::AnyBuffer image, const Attributes& attributes,
                   int64_t activation, const Run& run) {
  const Dtype* dtype = nullptr;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDtype(kSum, packed, image, /*with_sum=*/true, &dtype));
  const Element element = dtype->element;
  const Integers dims = image.dimensions();
  ShuffleExtents extents;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeExtents(kSum, packed.dimensions(), dims,
                                             attributes, element.bytes, &extents));
  const Format format = element.format;
  if (element.components != 1 ||
      (format != Format::kFloat32 && format != Format::kFloat16 &&
       format != Format::kBFloat16)) {
    return InvalidArgument(kSum, ": no kernel for dtype ", dtype->name);
  }
  // [c] or [outer.., c], the sizes before axes[0] and the last.
  const Integers of_bias = bias.dimensions();
  const size_t leading = attributes.axes[0];
  const bool of_each = of_bias.size() != 1;
  if (bias.element_type() != image.element_type() || extents.inner != dims.back() ||
      (of_each &&
       (of_bias.size() != leading + 1 ||
        !std::equal(dims.begin(), dims.begin() + leading, of_bias.begin()))) ||
      of_bias.back() != dims.back()) {
    return InvalidArgument(kSum,
                           ": bias must have the dtype of the image and a number for "
                           "each of its channels, its last axis, got ",
                           DimensionsText(of_bias), " for ", DimensionsText(dims));
  }
  if (activation < 0 || activation > 2 || rest.size() > 1) {
    return InvalidArgument(kSum,
                           ": activation must be 0, 1 or 2 and operands two or "
                           "three, got ",
                           activation, " and ", rest.size() + 2);
  }
  ShuffleSum sum{nullptr, bias.untyped_data(), of_each,
                 static_cast<Activation>(activation)};
  if (rest.size() == 1) {
    const auto added = rest.get<ffi::AnyBuffer>(0);
    if (!added.has_value()) return added.error();
    const Integers of_added = added->dimensions();
    if (added->element_type() != image.element_type() ||
        !std::equal(dims.begin(), dims.end(), of_added.begin(), of_added.end())) {
      return InvalidArgument(kSum, ": what is added must be like the image, ",
                             DimensionsText(dims), ", got ", DimensionsText(of_added));
    }
    sum.added = added->untyped_data();
  }
  if (IsEmpty(dims)) return ffi::Error::Success();
  int64_t alignment;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeAlignment(kSum, element,
                      {packed.untyped_data(), sum.bias,
                       rest.size() == 1 ? sum.added : sum.bias, image.untyped_data()},
                      &alignment));
  const ShufflePlan plan = PlanPixelShuffleSum(extents, element, alignment);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kSum, plan.blocks));
  return RunError(kSum, run(plan, sum));
}

template <typename Arguments>
auto WithAttributes(Arguments arguments) {
  return std::move(arguments)
      .template Ret<ffi::AnyBuffer>()
      .template Attr<Integers>("axes")
      .template Attr<Integers>("scale")
      .template Attr<Integers>("first");
}

template <typename Context>
auto Binding(Context context) {
  return WithAttributes(std::move(context).template Arg<ffi::AnyBuffer>());
}

template <typename Context>
auto BindingSum(Context context) {
  return WithAttributes(std::move(context)
                            .template Arg<ffi::AnyBuffer>()
                            .template Arg<ffi::AnyBuffer>()
                            .RemainingArgs())
      .template Attr<int64_t>("activation");
}

template <typename Where>
ffi::Error RunFwd(Where where, ffi::AnyBuffer packed, ffi::Result<ffi::AnyBuffer> image,
                  Integers axes, Integers scale, Integers first) {
  return Call<Direction::kForward>(
      packed, *image, {axes, scale, first}, [&](const ShufflePlan& plan) {
        return RunPixelShuffleFwd(plan, packed.untyped_data(), image->untyped_data(),
                                  where);
      });
}

template <typename Where>
ffi::Error RunBwd(Where where, ffi::AnyBuffer image, ffi::Result<ffi::AnyBuffer> packed,
                  Integers axes, Integers scale, Integers first) {
  return Call<Direction::kBackward>(
      image, *packed, {axes, scale, first}, [&](const ShufflePlan& plan) {
        return RunPixelShuffleBwd(plan, image.untyped_data(), packed->untyped_data(),
                                  where);
      });
}

template <typename Where>
ffi::Error RunSum(Where where, ffi::AnyBuffer packed, ffi::AnyBuffer bias,
                  ffi::RemainingArgs rest, ffi::Result<ffi::AnyBuffer> image,
                  Integers axes, Integers scale, Integers first, int64_t activation) {
  return CallSum(packed, bias, rest, *image, {axes, scale, first}, activation,
                 [&](const ShufflePlan& plan, const ShuffleSum& sum) {
                   return RunPixelShuffleSum(plan, packed.untyped_data(), sum,
                                             image->untyped_data(), where);
                 });
}

}  // namespace
}  // namespace jax_upsample

JAX_UPSAMPLE_DEFINE_HANDLERS(JaxPixelShuffleFwd, jax_upsample::RunFwd,
                             jax_upsample::Binding);
JAX_UPSAMPLE_DEFINE_HANDLERS(JaxPixelShuffleBwd, jax_upsample::RunBwd,
                             jax_upsample::Binding);
JAX_UPSAMPLE_DEFINE_HANDLERS(JaxPixelShuffleSum, jax_upsample::RunSum,
                             jax_upsample::BindingSum);
