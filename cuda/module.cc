// The Python module `jax_upsample._kernels`: handlers to register, what they
// were built with, and the launch planner.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "ffi_helpers.h"
#include "upsample_nearest.h"
#include "upsample_nearest_ffi.h"

namespace nb = nanobind;

namespace {

template <typename Handler>
nb::capsule HandlerCapsule(Handler* handler) {
  static_assert(std::is_invocable_r_v<XLA_FFI_Error*, Handler, XLA_FFI_CallFrame*>,
                "an FFI handler takes a call frame and returns an error");
  return nb::capsule(reinterpret_cast<void*>(handler));
}

nb::dict Registrations(const std::string& platform) {
  nb::dict targets;
  if (platform == "cpu") {
    targets["jax_upsample_nearest_fwd_v1"] =
        HandlerCapsule(JaxUpsampleNearestFwdHostFfi);
    targets["jax_upsample_nearest_bwd_v1"] =
        HandlerCapsule(JaxUpsampleNearestBwdHostFfi);
  }
#ifdef JAX_UPSAMPLE_WITH_CUDA
  if (platform == "cuda") {
    targets["jax_upsample_nearest_fwd_v1"] =
        HandlerCapsule(JaxUpsampleNearestFwdCudaFfi);
    targets["jax_upsample_nearest_bwd_v1"] =
        HandlerCapsule(JaxUpsampleNearestBwdCudaFfi);
  }
#endif
  return targets;
}

nb::tuple DtypeNames(bool with_sum) {
  nb::list names;
  for (const jax_upsample::Dtype& dtype : jax_upsample::kDtypes) {
    if (!with_sum || dtype.element.format != jax_upsample::Format::kNone)
      names.append(dtype.name);
  }
  return nb::tuple(names);
}

nb::dict LaunchPlan(const std::string& direction, const std::string& dtype,
                    const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& scales, int64_t alignment) {
  const auto found = std::find_if(
      std::begin(jax_upsample::kDtypes), std::end(jax_upsample::kDtypes),
      [&](const jax_upsample::Dtype& candidate) { return candidate.name == dtype; });
  if (found == std::end(jax_upsample::kDtypes))
    throw nb::value_error(("no kernel for dtype " + dtype).c_str());
  if (shape.size() != scales.size())
    throw nb::value_error("shape and scales must have one length");
  const jax_upsample::Extents extents = jax_upsample::MergeDimensions(
      shape.data(), scales.data(), static_cast<int>(shape.size()));
  const jax_upsample::Plan plan =
      direction == "fwd"
          ? jax_upsample::PlanUpsampleNearestFwd(extents, found->element, alignment)
          : jax_upsample::PlanUpsampleNearestBwd(extents, found->element, alignment);
  nb::dict fields;
  fields["unit_bytes"] = plan.unit_bytes;
  fields["loaded"] = plan.loaded;
  fields["stored"] = plan.stored;
  fields["scale_constant"] = plan.scale_constant;
  fields["rows_constant"] = plan.rows_constant;
  fields["contiguous"] = plan.contiguous;
  fields["flat"] = plan.flat;
  fields["wide_index"] = plan.wide_index;
  fields["rows_per_item"] = plan.rows_per_item;
  fields["lanes"] = plan.lanes;
  fields["lanes_adjacent"] = plan.lanes_adjacent;
  fields["items"] = plan.items;
  fields["grid"] = plan.blocks;
  fields["block"] = jax_upsample::kThreadsPerBlock;
  fields["bytes_read"] = plan.bytes_read;
  fields["bytes_written"] = plan.bytes_written;
  return fields;
}

}  // namespace

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
  module.attr("FWD_DTYPES") = DtypeNames(/*with_sum=*/false);
  module.attr("BWD_DTYPES") = DtypeNames(/*with_sum=*/true);
  module.def("registrations", &Registrations, nb::arg("platform"),
             "FFI target name -> handler capsule, for 'cpu' or 'cuda'.");
  module.def("launch_plan", &LaunchPlan, nb::arg("direction"), nb::arg("dtype"),
             nb::arg("shape"), nb::arg("scales"), nb::arg("alignment") = 16,
             "What the handler of `direction` ('fwd' or 'bwd') would launch. "
             "`shape` is the small array's and\n"
             "`scales` has one entry a dimension.");
}
