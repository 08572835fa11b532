// The LibTorch that sluice-run would load on this machine.
// Thread-safety: pure but for reading files and the environment.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sluice {

struct FoundTorch {
  std::string folder;   // with include/ and lib/
  std::string version;  // "2.13.0+cpu"; "" where no file says it
};

// Looks where the loader does: LD_LIBRARY_PATH, the paths that `program` was linked with (RPATH or
// RUNPATH of its ELF header, $ORIGIN being its folder), the system's folders.
std::optional<FoundTorch> find_torch(const std::string& program);

// The file of the running program. Throws Error(kUsage) where /proc is not mounted.
std::filesystem::path own_program();

// The place of the program `sluice-run`, beside this one.
std::filesystem::path sibling_program();

// The LibTorch that sluice-run finds for `command`. Throws Error(kUsage) without that program or a
// LibTorch, for which the loader would end the process with words of its own, and for another minor
// version than sluice was built with, which has another binary interface.
FoundTorch require_torch(const std::string& command);

// The program is linked with LibTorch, as a shared library.
bool needs_torch(const std::string& program);

// "2.13" of "2.13.0+cpu".
std::string minor_version(const std::string& version);

}  // namespace sluice
