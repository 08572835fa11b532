#include "comm/nccl_plugin.h"

#include <dlfcn.h>

#include "base/format.h"

namespace sluice {
namespace {

constexpr const char* kFile = "libsluice_nccl.so";

FoundNccl load() {
  const auto missing = [](std::string why) { return FoundNccl{nullptr, "", std::move(why)}; };
  void* const plugin = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (!plugin) {
    const char* const reason = dlerror();
    return missing(formatted("the plug-in for NCCL cannot be loaded ({})",
                             reason ? reason : "no reason given"));
  }
  const auto get = reinterpret_cast<nccl::GetTable>(dlsym(plugin, nccl::kTableSymbol));
  if (!get) return missing(formatted("{} is of another version of sluice", kFile));
  const nccl::Table& table = *get();
  int version = 0;
  if (const nccl::Result result = table.get_version(&version); result != nccl::kSuccess)
    return missing(
        formatted("the NCCL library does not return its version: {}", table.error_text(result)));
  // Within a major version, NCCL accepts structures of older headers, but not of newer ones.
  if (version < table.compiled_version || version / 10'000 != table.compiled_version / 10'000) {
    return missing(formatted("the plug-in was built for NCCL {}, but NCCL {} is loaded",
                             nccl_version_text(table.compiled_version),
                             nccl_version_text(version)));
  }
  return {&table, nccl_version_text(version), ""};
}

}  // namespace

const FoundNccl& find_nccl() {
  static const FoundNccl found = load();
  return found;
}

std::string nccl_version_text(int version) {
  return formatted("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

}  // namespace sluice
