#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "output_file.h"
#include "report/event_file.h"
#include "report/metrics_file.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct TensorboardArguments {
  std::string folder, out;
};

double changed_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * status.st_mtim.tv_nsec;
}

int write_events(const TensorboardArguments& arguments) {
  const std::string metrics = MetricsFile::path_in(arguments.folder);
  const EventFile events = events_of_metrics(metrics, changed_at(metrics));
  if (events.cut_off) log_warning("the last line is incomplete and was skipped; " + metrics);
  const std::string out = arguments.out.empty() ? arguments.folder : arguments.out;
  std::error_code failed;
  std::filesystem::create_directories(out, failed);
  if (failed) {
    throw Error(ErrorKind::kUsage, {.what = "cannot make the folder: " + failed.message(),
                                    .where = "--out " + out,
                                    .remedy = "name another one"});
  }
  replace_own_file(event_file_path(out), events.bytes, "--out");
  errno = 0;
  print(counted(events.steps, "step") + " in " + printable(event_file_path(out)) + "\n");
  finish_stdout();
  return 0;
}

}  // namespace

Command metrics_command() {
  const auto a = std::make_shared<TensorboardArguments>();
  const Command tensorboard = {
      .name = "tensorboard",
      .help = "Writes a TensorBoard event file from a run's metrics.jsonl.",
      .options = {required({.names = "FOLDER",
                            .value = &a->folder,
                            .help = "the run's metrics.folder",
                            .if_empty = "the folder has no name",
                            .empty_remedy = "name a run's metrics.folder"}),
                  {"--out", &a->out, "another folder for the file; created if it does not exist"}},
      .run = [a] { return at_command("metrics tensorboard", [&] { return write_events(*a); }); }};
  return {.name = "metrics",
          .help = "Converts a run's metrics for other programs.",
          .commands = {tensorboard}};
}

}  // namespace sluice
