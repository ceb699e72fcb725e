// The Python module `jax_upsample._kernels`: handlers to register, what they
// were built with, and the launch planner.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "ffi_helpers.h"
#include "pixel_shuffle_ffi.h"
#include "resize_nearest_ffi.h"
#include "stream_probe_ffi.h"
#include "upsample_add_ffi.h"
#include "upsample_concat_ffi.h"
#include "upsample_nearest.h"
#include "upsample_nearest_ffi.h"

namespace nb = nanobind;

namespace jax_upsample {
namespace {

#ifdef JAX_UPSAMPLE_WITH_CUDA
#define JAX_UPSAMPLE_HANDLERS(op) op##OnHost, op##OnCuda
#else
#define JAX_UPSAMPLE_HANDLERS(op) op##OnHost, nullptr
#endif

nb::dict Registrations(const std::string& platform) {
  nb::dict targets;
  const auto add = [&](const char* target, XLA_FFI_Handler* on_host,
                       XLA_FFI_Handler* on_cuda) {
    XLA_FFI_Handler* handler = platform == "cpu"    ? on_host
                               : platform == "cuda" ? on_cuda
                                                    : nullptr;
    if (handler == nullptr) return;
    targets[target] = nb::capsule(reinterpret_cast<void*>(handler));
  };
  add("jax_upsample_nearest_fwd_v1", JAX_UPSAMPLE_HANDLERS(JaxUpsampleNearestFwd));
  add("jax_upsample_nearest_bwd_v1", JAX_UPSAMPLE_HANDLERS(JaxUpsampleNearestBwd));
  add("jax_upsample_resize_nearest_fwd_v1", JAX_UPSAMPLE_HANDLERS(JaxResizeNearestFwd));
  add("jax_upsample_resize_nearest_bwd_v1", JAX_UPSAMPLE_HANDLERS(JaxResizeNearestBwd));
  add("jax_upsample_add_v1", JAX_UPSAMPLE_HANDLERS(JaxUpsampleAdd));
  add("jax_upsample_concat_fwd_v1", JAX_UPSAMPLE_HANDLERS(JaxUpsampleConcatFwd));
  add("jax_upsample_concat_bwd_v1", JAX_UPSAMPLE_HANDLERS(JaxUpsampleConcatBwd));
  add("jax_upsample_pixel_shuffle_fwd_v1", JAX_UPSAMPLE_HANDLERS(JaxPixelShuffleFwd));
  add("jax_upsample_pixel_shuffle_bwd_v1", JAX_UPSAMPLE_HANDLERS(JaxPixelShuffleBwd));
  add("jax_upsample_pixel_shuffle_sum_v1", JAX_UPSAMPLE_HANDLERS(JaxPixelShuffleSum));
  add("jax_upsample_stream_probe_v1", JAX_UPSAMPLE_HANDLERS(JaxUpsampleStreamProbe));
  return targets;
}

nb::tuple DtypeNames(bool with_sum) {
  nb::list names;
  for (const Dtype& dtype : kDtypes) {
    if (!with_sum || dtype.element.format != Format::kNone) names.append(dtype.name);
  }
  return nb::tuple(names);
}

nb::dict LaunchPlan(const std::string& direction, const std::string& dtype_name,
                    const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& scales, int64_t alignment) {
  const bool forward = direction == "fwd";
  if (!forward && direction != "bwd") throw nb::value_error("direction: fwd or bwd");
  const Dtype* dtype =
      FindDtype([&](const Dtype& candidate) { return candidate.name == dtype_name; });
  if (dtype == nullptr || (!forward && dtype->element.format == Format::kNone)) {
    throw nb::value_error(("no kernel for dtype " + dtype_name).c_str());
  }
  if (shape.size() != scales.size()) {
    throw nb::value_error("shape and scales must have one length");
  }
  if (alignment < 1 || alignment > 16 || (alignment & (alignment - 1)) != 0) {
    throw nb::value_error("alignment: a power of two up to 16");
  }
  int64_t bytes = dtype->element.bytes;
  int scaled = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    scaled += scales[d] != 1;
    if (shape[d] < 1 || scales[d] < 1 || scaled > 3 ||
        __builtin_mul_overflow(bytes, shape[d], &bytes) ||
        __builtin_mul_overflow(bytes, scales[d], &bytes)) {
      throw nb::value_error("shape and scales: positive, three scales above 1 at most");
    }
  }
  const Plan plan = PlanUpsampleNearest(
      forward ? Direction::kForward : Direction::kBackward, shape.data(), scales.data(),
      static_cast<int>(shape.size()), dtype->element, alignment);
  nb::dict fields;
  fields["kernel"] = UpsampleNearestKernelName(plan);
  VisitFields(plan, [&](const char* name, auto value) { fields[name] = value; });
  return fields;
}

}  // namespace
}  // namespace jax_upsample

NB_MODULE(_kernels, module) {
  module.attr("FFI_API_VERSION") = nb::make_tuple(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);
  module.attr("BUILD_NOTE") = JAX_UPSAMPLE_BUILD_NOTE;
#ifdef JAX_UPSAMPLE_WITH_CUDA
  nb::list architectures;
  for (const int* architecture = jax_upsample::CudaArchitectures(); *architecture != 0;
       ++architecture) {
    architectures.append(*architecture / 10);
  }
  module.attr("CUDA_ARCHITECTURES") = nb::tuple(architectures);
#else
  module.attr("CUDA_ARCHITECTURES") = nb::make_tuple();
#endif
  module.attr("FWD_DTYPES") = jax_upsample::DtypeNames(/*with_sum=*/false);
  module.attr("BWD_DTYPES") = jax_upsample::DtypeNames(/*with_sum=*/true);
  module.def("registrations", &jax_upsample::Registrations, nb::arg("platform"),
             "FFI target name -> handler capsule, for 'cpu' or 'cuda'.");
  module.def(
      "launch_plan", &jax_upsample::LaunchPlan, nb::arg("direction"), nb::arg("dtype"),
      nb::arg("shape"), nb::arg("scales"), nb::arg("alignment") = 16,
      "What the handler of `direction` ('fwd' or 'bwd') would launch. `shape` is\n"
      "the small array's, `scales` has one entry a dimension.");
}
