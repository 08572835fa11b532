#include "command/run_story.h"

#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/file.h"
#include "base/format.h"
#include "base/log.h"
#include "base/packer.h"
#include "base/strict_json.h"
#include "comm/gather_messages.h"
#include "config/batch_sizes.h"
#include "config/machine_memory.h"
#include "job/launch_environment.h"
#include "job/socket.h"
#include "plan/predict/layer_times.h"
#include "report/candidates_output.h"
#include "report/event_file.h"
#include "report/metrics_file.h"

namespace sluice {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json start_of(const Plan& plan, const ResumePoint& resume, int threads_per_rank) {
  const auto layout = read_launch_environment().layout;
  Json start;
  start["time"] = time_now();
  start["seconds"] = seconds_now();
  start["first_step"] = resume.done.steps + 1;
  start["checkpoint"] = resume.checkpoint ? Json(resume.checkpoint->path()) : Json();
  start["sluice"] = SLUICE_VERSION;
  start["torch"] = TORCH_VERSION;
  start["host"] = machine_name();
  const std::string processor = cpu_name();
  start["processor"] = processor.empty() ? "unknown processor" : processor;
  start["cores"] = std::max<std::int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
  start["memory_bytes"] = machine_memory_bytes();
  start["ranks"] = plan.program.mesh.num_ranks();
  start["processes"] = layout.num_processes;
  start["threads_per_rank"] = threads_per_rank;
  return start;
}

Json data_of(const RunConfig& config, const TokenData& data) {
  constexpr std::size_t kMostNames = 8;
  const std::vector<std::string> files = expand_data_files(config);
  Json names = Json::array();
  for (std::size_t i = 0; i < std::min(files.size(), kMostNames); ++i) names.push_back(files[i]);
  return {{"files", std::move(names)},
          {"num_files", files.size()},
          {"bytes", data.num_bytes()},
          {"sequences", data.num_sequences()},
          {"global_batch", batch_sizes(config).global_batch}};
}

Json rows_of_ranks(const Plan& plan) {
  Json rows = Json::array();
  for (int rank = 0; rank < plan.program.mesh.num_ranks(); ++rank)
    rows.push_back(plan.program.mesh.coordinate(rank, Axis::kPp));
  return rows;
}

const char* word_of(Ending ending) {
  switch (ending) {
    case Ending::kFinished:
      return "finished";
    case Ending::kStopped:
      return "stopped";
    default:
      return "failed";
  }
}

}  // namespace

LastStep gather_last_step(const Group& world, const FlightRecord& own) {
  std::vector<std::string> actions;
  std::vector<double> starts, ends;
  for (const RecordedInstruction& each : ran_instructions(own)) {
    actions.push_back(each.action);
    starts.push_back(each.start);
    ends.push_back(each.end);
  }
  LastStep last{own.step, {}};
  for (Unpacker& message : gather_messages(world, Packer().add(actions).add(starts).add(ends),
                                           "instructions of the last step")) {
    const auto names = message.take<std::vector<std::string>>();
    const auto begins = message.take<std::vector<double>>();
    const auto finishes = message.take<std::vector<double>>();
    message.finish();
    std::vector<RecordedInstruction>& rank = last.ranks.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i)
      rank.push_back({names[i], begins.at(i), finishes.at(i)});
  }
  return last;
}

// Keeps what an earlier process of this run recorded (starts, saves, curves) up to the checkpoint's
// step.
void RunStory::keep_earlier() {
  const std::int64_t done = resume_.done.steps;
  Json& facts = record_.facts;
  facts["starts"] = Json::array();
  facts["saves"] = Json::array();
  if (done == 0) return;
  try {
    const Json earlier = read_run_facts(run_file_path(record_.folder));
    if (!(earlier.at("run") == facts.at("run"))) return;
    for (const Json& start : earlier.at("starts").list()) {
      if (start.at("first_step").is_number() && start.at("first_step").integer() <= done)
        facts["starts"].push_back(start);
    }
    for (const Json& step : earlier.at("saves").list())
      if (step.is_number() && step.integer() <= done) facts["saves"].push_back(step);
    read_curves(MetricsFile::path_in(record_.folder), done, record_.curves);
  } catch (const Error& error) {
    // The record only informs the user, so a damaged one must not prevent a resume.
    log_debug(formatted("an unreadable earlier record of this run is left out: {}", error.what()));
  }
}

void RunStory::begin(int threads_per_rank) {
  record_.folder = config_.metrics.folder;
  const std::string settings = show_config_json(config_);
  Json& facts = record_.facts;
  facts["format"] = 1;
  facts["run"] = resume_.run;
  facts["config"] = config_.file;
  keep_earlier();
  facts["starts"].push_back(start_of(plan_, resume_, threads_per_rank));
  facts["settings"] = parse_strict_json(settings, "settings", KeyOrder::kAsWritten);
  facts["data"] = data_of(config_, data_);
  facts["plan"] = parse_strict_json(plan_json(plan_), "plan", KeyOrder::kAsWritten);
  facts["row_of_rank"] = rows_of_ranks(plan_);
  facts["expected"] =
      picture_json(picture_of(plan_.schedule.name + " of " + plan_.model.family, plan_.program,
                              plan_.simulation, plan_.costs, basis_of(plan_)));
  facts["end"] = Json();
  begun_ = true;
}

void RunStory::first_step_done() {
  stepped_ = true;
  write_facts();
}

void RunStory::step(const StepMetrics& metrics) { record_.curves.add(metrics); }

void RunStory::saves(std::int64_t step) {
  if (!begun_) return;
  Json& saves = record_.facts["saves"];
  if (!saves.empty() && saves.list().back() == Json(step)) return;
  saves.push_back(step);
  write_facts();
}

std::string RunStory::end(const RunEnd& of) {
  if (!begun_ || (of.refused && !stepped_)) return {};
  Json end;
  end["time"] = time_now();
  end["seconds"] = seconds_now();
  end["ending"] = word_of(of.ending);
  end["step"] = of.step;
  end["weights"] = of.weights;
  end["error"] = of.error;
  Picture ran;
  if (!of.last.ranks.empty())
    ran = picture_of_recorded_step(formatted("step {}", of.last.step), plan_, of.last.ranks);
  if (ran.simulation.makespan > 0)
    end["last_step"] = {{"step", of.last.step}, {"picture", picture_json(ran)}};
  record_.facts["end"] = std::move(end);
  if (!write_facts()) return {};
  std::string text;
  if (config_.metrics.report) {
    const std::string path = report_path(record_.folder);
    if (write(path, report_html(record_))) text += formatted("report: {}\n", path);
  }
  return text + write_events();
}

std::string RunStory::write_events() {
  if (!config_.metrics.enable_tensorboard || record_.curves.steps == 0) return {};
  const std::string path = event_file_path(record_.folder);
  try {
    const EventFile events = events_of_metrics(MetricsFile::path_in(record_.folder), seconds_now());
    if (write(path, events.bytes)) return formatted("tensorboard: {}\n", path);
  } catch (const Error& error) {
    log_warning(formatted("no event file is written: {}", error.what()));
  }
  return {};
}

bool RunStory::write_facts() {
  record_.facts["warnings"] = logged_warnings();
  return write(run_file_path(record_.folder), record_.facts.dump() + "\n");
}

bool RunStory::write(const std::string& path, const std::string& text) {
  if (given_up_) return false;
  const int failed = replace_file(path, text);
  if (failed == 0) return true;
  given_up_ = true;
  log_warning(formatted(
      "{}; the run continues without it",
      file_error(ErrorKind::kUsage, "cannot write the record of the run", path, failed).what()));
  return false;
}

}  // namespace sluice
