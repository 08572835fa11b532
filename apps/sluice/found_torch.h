#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sluice {

struct FoundTorch {
  std::string folder;   // contains include/ and lib/
  std::string version;  // such as "2.13.0+cpu"; "" if unknown
};

// Searches LD_LIBRARY_PATH, the RPATH or RUNPATH of `program`, and the system folders, like the
// loader.
std::optional<FoundTorch> find_torch(const std::string& program);

// Throws Error(kUsage) if /proc is not mounted.
std::filesystem::path own_program();

// The path of `sluice-run`, in this program's folder.
std::filesystem::path sibling_program();

// Throws Error(kUsage) if sluice-run or LibTorch is missing, before the loader prints its own
// message. Also throws if LibTorch's minor version differs from the build's, because its binary
// interface differs.
FoundTorch require_torch(const std::string& command);

bool needs_torch(const std::string& program);

// Returns "2.13" for "2.13.0+cpu".
std::string minor_version(const std::string& version);

}  // namespace sluice
