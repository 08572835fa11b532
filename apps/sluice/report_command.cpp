// sluice report FOLDER: a page that shows a run, from the files that it left.
#include <cerrno>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "output_file.h"
#include "report/run_report.h"

namespace sluice {
namespace {

struct ReportArguments {
  std::string folder, compare, out;
};

int write_report(const ReportArguments& arguments) {
  const std::string out = arguments.out.empty() ? report_path(arguments.folder) : arguments.out;
  const RunRecord run = read_run(arguments.folder);
  std::optional<RunRecord> other;
  if (!arguments.compare.empty()) other = read_run(arguments.compare);
  write_output_file(out, report_html(run, other ? &*other : nullptr), "--out");
  errno = 0;
  std::cout << counted(run.curves.steps, "logged step") << " in " << out << "\n";
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
