#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "plan/flight_record.h"
#include "report/flight_report.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 65536;
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

struct FlightArguments {
  std::string folder;
  bool json = false;
};

std::vector<fs::path> flight_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (rank_of_flight_file(it->path().filename().string())) files.push_back(it->path());
    if (files.size() > kMostFiles) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted("the folder has more than {} flight records", kMostFiles),
                   .where = folder.string(),
                   .remedy = "name a folder of one run's flight records"});
    }
  }
  if (error) {
    throw Error(ErrorKind::kInput, {.what = "cannot read the folder: " + error.message(),
                                    .where = folder.string(),
                                    .remedy = "name the folder 'flight' of metrics.folder"});
  }
  return files;
}

std::vector<FlightRecord> read_records(const std::string& folder) {
  std::vector<fs::path> files = flight_files(folder);
  const fs::path inside = fs::path(folder) / "flight";
  std::error_code unknown;
  if (files.empty() && fs::is_directory(inside, unknown)) files = flight_files(inside);
  if (files.empty()) {
    throw Error(ErrorKind::kInput,
                {.what = "the folder has no flight record (rank_0.json, ..)",
                 .where = folder,
                 .remedy = "name the folder 'flight' of metrics.folder; a run writes it when it "
                           "fails, and on SIGUSR2"});
  }
  std::vector<FlightRecord> records;
  std::uint64_t bytes = 0;
  for (const fs::path& file : files) {
    bytes += File::open(file.string()).size();
    if (bytes > kMostBytes) {
      throw Error(ErrorKind::kInput, {.what = "the flight records have more than " +
                                              human_bytes(static_cast<std::int64_t>(kMostBytes)),
                                      .where = folder,
                                      .remedy = "name a folder of one run's flight records"});
    }
    records.push_back(read_flight_record(file.string()));
    if (rank_of_flight_file(file.filename().string()) != records.back().rank) {
      throw Error(ErrorKind::kInput, {.what = "the file's name does not match its record of rank " +
                                              std::to_string(records.back().rank),
                                      .where = file.string(),
                                      .remedy = "give the file its own name again"});
    }
  }
  return records;
}

int debug_flight(const FlightArguments& arguments) {
  const FlightReport report = align_flight_records(read_records(arguments.folder));
  errno = 0;
  arguments.json ? print_exact(to_json(report) + "\n")
                 : print(describe(report, terminal_width(STDOUT_FILENO)));
  finish_stdout();
  return 0;
}

}  // namespace

Command debug_command() {
  const auto a = std::make_shared<FlightArguments>();
  const Command flight = {
      .name = "flight",
      .help = "Shows what every rank did last, which ranks wait for which, and the first failure.",
      .options = {required({"DIR", &a->folder,
                            "the run's metrics.folder, or the folder 'flight' in it"}),
                  {"--json", &a->json, "as JSON"}},
      .run = [a] { return at_command("debug flight", [&] { return debug_flight(*a); }); }};
  return {.name = "debug",
          .help = "Compares the flight records of a run that failed.",
          .commands = {flight}};
}

}  // namespace sluice
