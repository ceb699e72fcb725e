#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>

#include "host_backend.h"
#include "upsample_nearest_dispatch.h"

namespace jax_upsample {
namespace {

// A backend that runs nothing and keeps the name of the body that it is given.
struct NamingBackend {
  template <typename Body>
  int ForEachItem(const Body&, const Plan&) const {
    int status;
    char* demangled =
        abi::__cxa_demangle(typeid(Body).name(), nullptr, nullptr, &status);
    if (demangled != nullptr) *name = demangled;
    std::free(demangled);
    return 0;
  }

  template <typename Body>
  int SumItems(const Body& body, const Plan& plan) const {
    return ForEachItem(body, plan);
  }

  std::string* name;
};

}  // namespace

int RunUpsampleNearestFwd(const Plan& plan, const void* small, void* large,
                          HostThread) {
  return DispatchUpsampleNearestFwd(plan, small, large, HostBackend());
}

int RunUpsampleNearestBwd(const Plan& plan, const void* large, void* small,
                          HostThread) {
  return DispatchUpsampleNearestBwd(plan, large, small, HostBackend());
}

std::string UpsampleNearestKernelName(const Plan& plan) {
  std::string name;
  const NamingBackend backend{&name};
  if (plan.direction == Direction::kForward) {
    DispatchUpsampleNearestFwd(plan, nullptr, nullptr, backend);
  } else {
    DispatchUpsampleNearestBwd(plan, nullptr, nullptr, backend);
  }
  return name;
}

}  // namespace jax_upsample
