#include "checkpoint/step_folders.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "io/step_name.h"

namespace sluice {

std::vector<StepFolder> step_folders(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<StepFolder> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    const auto step = io::step_of_name(name);
    if (step) found.push_back({*step, name, folder + "/" + name});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw file_error(ErrorKind::kCheckpoint, "cannot list the folder", folder, error.value(),
                     Access::kRead);
  }
  std::sort(found.begin(), found.end(),
            [](const StepFolder& a, const StepFolder& b) { return a.step < b.step; });
  return found;
}

}  // namespace sluice
