#include "resize_nearest_ffi.h"

#include <utility>
#include <vector>

#include "ffi_helpers.h"
#include "resize_nearest.h"

namespace jax_upsample {
namespace {

constexpr const char* OpName(Direction direction) {
  return direction == Direction::kForward ? "resize_nearest_fwd" : "resize_nearest_bwd";
}

// The table of one axis, checked; `entries` are wanted.
ffi::Error DecodeTable(const char* op, ffi::RemainingArgs tables, size_t index,
                       int64_t entries, const int32_t** table) {
  const auto buffer = tables.get<ffi::AnyBuffer>(index);
  if (!buffer.has_value()) {
    return InvalidArgument(op, ": table ", index, " is no buffer");
  }
  const Integers dims = buffer->dimensions();
  if (buffer->element_type() != ffi::S32 || dims.size() != 1 || dims[0] != entries) {
    return InvalidArgument(op, ": table ", index, " must be i32 of shape (", entries,
                           "), got code ", static_cast<int>(buffer->element_type()),
                           " of shape ", DimensionsText(dims));
  }
  const void* data = buffer->untyped_data();
  // An empty buffer may have no address; nothing reads it, but "has a table" must hold.
  static constexpr int32_t kNothing = 0;
  *table = entries == 0 ? &kNothing : static_cast<const int32_t*>(data);
  if (*table == nullptr || reinterpret_cast<uintptr_t>(*table) % sizeof(int32_t) != 0) {
    return InvalidArgument(op, ": table ", index, " must be aligned to 4 bytes, got ",
                           data);
  }
  return ffi::Error::Success();
}

// The sizes and tables of one call, checked: whoever made the call, also a stored
// program.
ffi::Error DecodeExtents(Direction direction, Integers source, Integers target,
                         Integers axes, ffi::RemainingArgs tables,
                         int64_t element_bytes, ResizeExtents* extents) {
  const char* op = OpName(direction);
  const auto got = [&] {
    return " (source " + DimensionsText(source) + ", target " + DimensionsText(target) +
           ")";
  };
  const int64_t rank = static_cast<int64_t>(source.size());
  if (source.size() != target.size()) {
    return InvalidArgument(op, ": operand and result must have one rank, got ",
                           source.size(), " and ", target.size(), got());
  }
  if (axes.size() > 3 || tables.size() != axes.size()) {
    return InvalidArgument(op, ": at most 3 axes and a table for each, got ",
                           axes.size(), " and ", tables.size(), got());
  }
  std::vector<const int32_t*> table_of(rank, nullptr);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i] <= axes[i - 1])) {
      return InvalidArgument(op, ": axes must increase and lie in [0, ", rank,
                             "), got ", DimensionsText(axes), got());
    }
    const int64_t entries =
        direction == Direction::kForward ? target[axes[i]] : source[axes[i]] + 1;
    JAX_UPSAMPLE_RETURN_IF_ERROR(
        DecodeTable(op, tables, i, entries, &table_of[axes[i]]));
  }
  int64_t source_bytes = element_bytes, target_bytes = element_bytes;
  bool overflow = false, empty_source = false, empty_target = false;
  for (int64_t d = 0; d < rank; ++d) {
    if (source[d] < 0 || target[d] < 0 ||
        (table_of[d] == nullptr && source[d] != target[d])) {
      return InvalidArgument(op, ": dimension ", d, " is not among axes, but ",
                             source[d], " and ", target[d], " differ", got());
    }
    empty_source |= source[d] == 0;
    empty_target |= target[d] == 0;
    overflow |= __builtin_mul_overflow(source_bytes, source[d], &source_bytes) ||
                __builtin_mul_overflow(target_bytes, target[d], &target_bytes);
  }
  if (empty_source && !empty_target) {
    return InvalidArgument(op, ": an empty source has no neighbours", got());
  }
  if (overflow && !empty_source && !empty_target) {
    return InvalidArgument(op, ": an array has 2^63 bytes or more", got());
  }
  *extents = MergeResizeDimensions(source.begin(), target.begin(), table_of.data(),
                                   static_cast<int>(rank));
  return ffi::Error::Success();
}

// Checks a call, plans it, and has it run by run(plan).
template <Direction kDirection, typename Run>
ffi::Error Call(ffi::AnyBuffer operand, ffi::RemainingArgs tables,
                ffi::AnyBuffer result, Integers axes, const Run& run) {
  constexpr const char* kOp = OpName(kDirection);
  const Dtype* dtype = nullptr;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeDtype(kOp, operand, result, kDirection == Direction::kBackward, &dtype));
  const Element element = dtype->element;
  const bool forward = kDirection == Direction::kForward;
  ResizeExtents extents;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeExtents(kDirection,
                                             (forward ? operand : result).dimensions(),
                                             (forward ? result : operand).dimensions(),
                                             axes, tables, element.bytes, &extents));
  if (result.element_count() == 0) return ffi::Error::Success();
  // An empty operand is never read: a gradient of zeros, at any address.
  const void* read =
      operand.element_count() == 0 ? result.untyped_data() : operand.untyped_data();
  int64_t alignment;
  JAX_UPSAMPLE_RETURN_IF_ERROR(
      DecodeAlignment(kOp, element, {read, result.untyped_data()}, &alignment));
  const ResizePlan plan = forward ? PlanResizeNearestFwd(extents, element, alignment)
                                  : PlanResizeNearestBwd(extents, element, alignment);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kOp, plan.blocks));
  return RunError(kOp, run(plan));
}

// The buffers and attributes of every handler (resize_nearest_ffi.h).
template <typename Context>
auto Binding(Context context) {
  return std::move(context)
      .template Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .template Ret<ffi::AnyBuffer>()
      .template Attr<Integers>("axes");
}

template <typename Where>
ffi::Error RunFwd(Where where, ffi::AnyBuffer source, ffi::RemainingArgs tables,
                  ffi::Result<ffi::AnyBuffer> target, Integers axes) {
  return Call<Direction::kForward>(
      source, tables, *target, axes, [&](const ResizePlan& plan) {
        return RunResizeNearestFwd(plan, source.untyped_data(), target->untyped_data(),
                                   where);
      });
}

template <typename Where>
ffi::Error RunBwd(Where where, ffi::AnyBuffer target, ffi::RemainingArgs tables,
                  ffi::Result<ffi::AnyBuffer> source, Integers axes) {
  return Call<Direction::kBackward>(
      target, tables, *source, axes, [&](const ResizePlan& plan) {
        return RunResizeNearestBwd(plan, target.untyped_data(), source->untyped_data(),
                                   where);
      });
}

}  // namespace
}  // namespace jax_upsample

JAX_UPSAMPLE_DEFINE_HANDLERS(JaxResizeNearestFwd, jax_upsample::RunFwd,
                             jax_upsample::Binding);
JAX_UPSAMPLE_DEFINE_HANDLERS(JaxResizeNearestBwd, jax_upsample::RunBwd,
                             jax_upsample::Binding);
