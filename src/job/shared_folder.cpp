#include "job/shared_folder.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "comm/gather_messages.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// File systems of a network may show a new folder a little later.
constexpr std::chrono::seconds kPatienceForFiles{5};

fs::path nearest_folder(const std::string& folder) {
  std::error_code unknown;
  fs::path path = fs::absolute(folder, unknown).lexically_normal();
  while (path.has_relative_path() && !fs::is_directory(path, unknown)) path = path.parent_path();
  return path;
}

bool sees(const fs::path& path) {
  std::error_code unknown;
  const auto give_up = std::chrono::steady_clock::now() + kPatienceForFiles;
  while (!fs::exists(path, unknown)) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

void require_shared_folder(const std::string& folder, const Group& world) {
  const fs::path place = nearest_folder(folder);
  std::string made;  // by the first rank; what it cannot make, a save cannot either
  std::error_code failed;
  if (world.rank() == 0) {
    const std::string name = ".sluice-shared-" + unique_suffix();
    if (fs::create_directory(place / name, failed)) made = name;
  }
  const std::string name = world.broadcast(made, 0).wait();
  int missing = -1, rank = 0;
  const WireWriter own = WireWriter().add(name.empty() || sees(place / name));
  for (WireReader& message : gather_messages(world, own, "checkpoint.folder")) {
    if (!message.take<bool>() && missing < 0) missing = rank;
    message.finish();
    ++rank;
  }
  if (!made.empty()) fs::remove(place / made, failed);
  if (missing < 0) return;
  throw Error(ErrorKind::kCheckpoint,
              {.what = "rank " + std::to_string(missing) +
                       " does not see the folder of the checkpoints that rank 0 sees",
               .where = folder,
               .remedy = "set checkpoint.folder to one on a file system that all machines share, "
                         "under one path"});
}

}  // namespace sluice
