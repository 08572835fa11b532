#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "output_file.h"
#include "report/metrics_file.h"
#include "report/run_report.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct ReportArguments {
  std::string folder, compare, out;
};

// Throws if `out` is a file of the record, and warns of lines in metrics.jsonl that are not steps.
RunRecord record_of(const std::string& folder, const std::string& out) {
  const std::string metrics = MetricsFile::path_in(folder);
  for (const std::string& source : {run_file_path(folder), metrics}) {
    std::error_code missing;
    if (!std::filesystem::equivalent(source, out, missing)) continue;
    throw Error(ErrorKind::kUsage, {.what = "the page would replace a file of the run",
                                    .where = "--out " + out,
                                    .remedy = "name another file, such as report.html"});
  }
  RunRecord run = read_run(folder);
  if (run.foreign_lines > 0) {
    log_warning("skipped " + counted(run.foreign_lines, "line") +
                " that no step of the run wrote; " + metrics);
  }
  return run;
}

int write_report(const ReportArguments& arguments) {
  const std::string out = arguments.out.empty() ? report_path(arguments.folder) : arguments.out;
  const RunRecord run = record_of(arguments.folder, out);
  std::optional<RunRecord> other;
  if (!arguments.compare.empty()) other = record_of(arguments.compare, out);
  const std::string page = report_html(run, other ? &*other : nullptr);
  arguments.out.empty() ? replace_own_file(out, page, "--out")
                        : write_output_file(out, page, "--out");
  errno = 0;
  print(counted(run.curves.steps, "logged step") + " in " + printable(out) + "\n");
  finish_stdout();
  return 0;
}

}  // namespace

Command report_command() {
  const auto a = std::make_shared<ReportArguments>();
  return {
      .name = "report",
      .help = "Writes a page that shows a run: curves, steps, time, memory, settings.",
      .options = {required({.names = "FOLDER",
                            .value = &a->folder,
                            .help = "the run's metrics.folder",
                            .if_empty = "the folder has no name",
                            .empty_remedy = "name a run's metrics.folder"}),
                  {"--compare", &a->compare, "metrics.folder of another run to show beside it"},
                  {"--out", &a->out, "FILE.html: write this file instead of FOLDER/report.html"}},
      .run = [a] { return at_command("report", [&] { return write_report(*a); }); }};
}

}  // namespace sluice
