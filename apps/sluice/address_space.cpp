#include "address_space.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/system_text.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::uint64_t kReserve = std::uint64_t{256} << 20;

// Returns 0 if /proc is not mounted.
std::uint64_t address_space_of_process() {
  constexpr std::size_t kMaxBytes = 4096;
  const std::string pages = read_text_or_empty("/proc/self/statm", kMaxBytes);
  return std::strtoull(pages.c_str(), nullptr, 10) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void require_address_space(std::uint64_t more) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t needed = address_space_of_process() + more + kReserve;
  if (limit.rlim_cur >= needed) return;
  throw Error(ErrorKind::kMemory,
              {.what = "the limit on address space is " +
                       human_bytes(static_cast<std::int64_t>(limit.rlim_cur)) +
                       ", and LibTorch with its threads needs " +
                       human_bytes(static_cast<std::int64_t>(needed)) + " before any tensor",
               .where = "ulimit -v",
               .remedy = "raise the limit, or remove it (ulimit -v unlimited)"});
}

std::uint64_t bytes_of_torch(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const char* name : {"libtorch_cpu.so", "libtorch.so", "libc10.so"}) {
    std::error_code missing;
    const std::uintmax_t size = std::filesystem::file_size(folder + "/lib/" + name, missing);
    if (!missing) bytes += size;
  }
  return bytes;
}

}  // namespace sluice
