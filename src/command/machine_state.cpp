#include "command/machine_state.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/system_text.h"
#include "base/text.h"
#include "job/launch_environment.h"

namespace sluice {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void add_cores(MachineState& state) {
  std::ifstream file("/proc/stat");
  std::string name;
  enum : std::size_t { kIdle = 3, kIoWait = 4, kStolen = 7, kCount = 8 };
  std::array<double, kCount> ticks{};
  file >> name;
  double all = 0;
  for (double& each : ticks) {
    if (!(file >> each)) return;
    all += each;
  }
  const auto second = static_cast<double>(sysconf(_SC_CLK_TCK));
  state.elapsed = all / second / state.cores;
  state.stolen = ticks[kStolen] / second;
  state.busy = (all - ticks[kIdle] - ticks[kIoWait] - ticks[kStolen]) / second;
}

void add_swapping(MachineState& state) {
  std::ifstream file("/proc/vmstat");
  std::string name;
  std::int64_t count = 0;
  while (file >> name >> count) {
    if (name == "pswpin" || name == "pswpout") state.swapped_pages += count;
  }
}

double clock_mhz() {
  constexpr std::size_t kMaxCpuInfo = std::size_t{16} << 20;
  double sum = 0;
  int count = 0;
  for (const std::string& line : split(read_text_or_empty("/proc/cpuinfo", kMaxCpuInfo), '\n')) {
    if (!line.starts_with("cpu MHz")) continue;
    sum += std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

MachineState machine_state() {
  MachineState state;
  state.cores = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  add_cores(state);
  add_swapping(state);
  state.clock_mhz = clock_mhz();
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const int processes = std::max(1, read_launch_environment().layout.processes_on_machine);
  state.own = processes * (seconds_of(own.ru_utime) + seconds_of(own.ru_stime));
  state.major_faults = own.ru_majflt;
  return state;
}

}  // namespace sluice
