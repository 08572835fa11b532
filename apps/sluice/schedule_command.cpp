#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/json.h"
#include "base/option_names.h"
#include "base/print.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "config/memory_size.h"
#include "emit_option.h"
#include "output_file.h"
#include "plan/action_kinds.h"
#include "plan/choose/search/search_question.h"
#include "plan/option_words.h"
#include "plan/passes/passes.h"
#include "plan/schedules/builders.h"
#include "report/picture.h"
#include "report/program_output.h"
#include "report/search_output.h"
#include "sluice/error.h"
#include "sluice/program.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {
namespace {

struct ScheduleArguments {
  std::string name, csv;
  std::optional<std::string> stage_to_rank, costs, out, max_memory, draw, transport, layout, emit,
      layer_costs, cluster;
  std::optional<int> num_ranks, stages_per_rank, num_stages, num_microbatches, max_active_stages;
  bool lower = false, shard_parameters = false, reduce_gradients = false, defer_receives = false;
  bool merge_backward = false, forward_only = false;
  bool check = false, simulate = false, search = false, json = false, critical_path = false,
       timeline = false;
};

[[noreturn]] void refuse_schedule(const std::string& what, const std::string& remedy = {}) {
  throw Error(ErrorKind::kUsage, {.what = what, .remedy = remedy});
}

// Returns 0 for the schedule's default.
int stages_per_rank_of(const ScheduleArguments& arguments) {
  if (!arguments.num_stages) return arguments.stages_per_rank.value_or(0);
  if (*arguments.num_stages % *arguments.num_ranks != 0) {
    refuse_schedule(counted(*arguments.num_stages, "stage") + " cannot be divided evenly over " +
                        counted(*arguments.num_ranks, "rank"),
                    "give --stages as a multiple of --pp");
  }
  return *arguments.num_stages / *arguments.num_ranks;
}

Schedule make_named(const ScheduleArguments& arguments) {
  ScheduleShape shape;
  shape.num_ranks = *arguments.num_ranks;
  shape.num_microbatches = *arguments.num_microbatches;
  shape.stages_per_rank = stages_per_rank_of(arguments);
  return make_schedule(arguments.name, shape);
}

// Counts on the command line must match the file's.
Schedule read_file(const ScheduleArguments& arguments) {
  const auto must_be = [&](std::optional<std::int64_t> wanted, int found, const char* what) {
    if (!wanted || *wanted == found) return;
    throw Error(ErrorKind::kInput,
                {.what = formatted("the file has {}, not {}", counted(found, what), *wanted),
                 .where = arguments.csv,
                 .remedy = "leave the count out, or name another file"});
  };
  Schedule schedule = read_schedule_csv(arguments.csv);
  must_be(arguments.num_ranks, static_cast<int>(schedule.rows.size()), "row");
  if (arguments.stage_to_rank) {
    schedule = read_schedule_csv(
        arguments.csv,
        parse_stage_to_rank(*arguments.stage_to_rank, schedule.num_ranks(), schedule.num_stages()));
  }
  must_be(arguments.num_stages, schedule.num_stages(), "stage");
  if (arguments.stages_per_rank) {
    must_be(std::int64_t{*arguments.stages_per_rank} * schedule.num_ranks(), schedule.num_stages(),
            "stage");
  }
  schedule.num_microbatches = arguments.num_microbatches.value_or(schedule.num_microbatches);
  return schedule;
}

LowerOptions lower_options(const ScheduleArguments& arguments) {
  LowerOptions options;
  options.transfers = arguments.lower;
  options.shard_parameters = arguments.shard_parameters;
  options.reduce_gradients = arguments.reduce_gradients;
  options.defer_receives = arguments.defer_receives;
  options.merge_backward = arguments.merge_backward;
  options.forward_only = arguments.forward_only;
  options.max_active_stages = arguments.max_active_stages.value_or(options.max_active_stages);
  return options;
}

// With --check, keeps a schedule that cannot be lowered (completed by sends and receives), because
// the check explains why.
Program make_program(const ScheduleArguments& arguments, const Schedule& schedule,
                     bool& is_as_given) {
  is_as_given = false;
  if (arguments.lower || arguments.forward_only) {
    try {
      return lower(schedule, lower_options(arguments));
    } catch (const Error& error) {
      if (!arguments.check || error.kind() != ErrorKind::kInput) throw;
    }
  }
  is_as_given = true;
  return to_program(schedule);
}

// By default, checks a file that contains transfers for torch, which runs such a file unchanged.
ProofTransport transport_of(const ScheduleArguments& arguments, const Schedule& schedule) {
  if (arguments.transport)
    return detail::parse_word(detail::words_of(ProofTransport{}), *arguments.transport, "transport",
                              "--for");
  const bool has_transfers = std::any_of(schedule.rows.begin(), schedule.rows.end(), [](auto& row) {
    return std::any_of(row.begin(), row.end(),
                       [](const Action& action) { return is_transfer(action.kind); });
  });
  return has_transfers ? ProofTransport::kTorch : ProofTransport::kSluice;
}

// Changes instruction numbers to cell numbers of the schedule, which also count idle cells.
void point_at_cells(const Schedule& schedule, VerifyReport& report) {
  const auto point_at_cell = [&](Violation& violation) {
    if (violation.rank < 0 || violation.index < 0) return;
    const std::vector<Action>& row = schedule.rows[violation.rank];
    int instructions = -1, cell = -1;
    while (instructions < violation.index) instructions += row[++cell].kind != ActionKind::kIdle;
    violation.index = cell;
  };
  for (Violation& violation : report.violations) point_at_cell(violation);
  for (Verdict& verdict : report.verdicts) {
    for (Violation& violation : verdict.violations) point_at_cell(violation);
  }
}

void print_result(const std::string& text, bool json) {
  if (json) return print_exact(text);
  print(text, use_color(STDOUT_FILENO) ? Colors::kKeep : Colors::kReplace);
}

GridOptions grid_options() {
  return {.color = use_color(STDOUT_FILENO), .width = terminal_width(STDOUT_FILENO)};
}

std::string flag_of(std::string_view option) {
  if (option == "costs") return "--costs";
  if (option == "max_bytes") return "--max-memory";
  if (option == "num_ranks") return "--pp";
  if (option == "layout") return "--layout";
  return option == "stage_to_rank" ? "--stage-to-rank" : "";
}

// Makes errors of `call` name this command's flags.
template <typename Call>
auto with_flags(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw with_names(error, flag_of);
  }
}

Costs costs_of(const ScheduleArguments& arguments) {
  if (!arguments.costs) return {};
  const std::string& text = *arguments.costs;
  const bool is_file = !text.empty() && text.find('=') == std::string::npos;
  return with_flags([&] { return is_file ? read_costs(text) : parse_costs(text); });
}

std::string rows_text(const ScheduleArguments& arguments, const Program& program,
                      const std::vector<std::vector<Action>>& rows) {
  if (!arguments.lower && is_terminal(STDOUT_FILENO)) {
    try {
      return draw_grid(simulate(program), grid_options());
    } catch (const Error&) {
      // The schedule deadlocks. Print its rows, because --check explains the deadlock.
    }
  }
  return to_csv(rows);
}

double bytes_of_max_memory(const std::string& text) {
  const std::optional<std::int64_t> bytes = detail::bytes_of_text(text);
  if (!bytes) {
    refuse_schedule("--max-memory: '" + text + "' is not an amount of memory",
                    "write 80GB, 640MiB or a number of bytes");
  }
  return static_cast<double>(*bytes);
}

// Returns the answer to write for a trainer: the searched order if the trainer can read it and it
// is better or written to a file, otherwise the fastest that the trainer runs by its name.
const ScheduleAnswer& answer_for(const std::string& trainer, const SearchResult& result,
                                 bool has_file) {
  if (result.found && reads_schedule_csv(trainer) && (has_file || result.is_better))
    return *result.found;
  const ScheduleAnswer* fastest = nullptr;
  for (const ScheduleAnswer& each : result.named) {
    if (!each.refusal.empty() || !runs_by_name(trainer, each.schedule)) continue;
    if (!fastest || each.simulation.makespan < fastest->simulation.makespan) fastest = &each;
  }
  if (!fastest) {
    throw Error(ErrorKind::kUsage, {.what = trainer + " can run none of the schedules that fit",
                                    .where = "--emit",
                                    .remedy = "use other --stages-per-rank or --stage-to-rank"});
  }
  return *fastest;
}

PeerLayout layout_of_search(const ScheduleArguments& arguments, const SearchResult& result) {
  const bool has_file = arguments.out.has_value();
  const ScheduleAnswer& answer = answer_for(*arguments.emit, result, has_file);
  if (!answer.partition) {
    throw Error(ErrorKind::kUsage,
                {.what = "these are costs of stages, so the layers of a stage are not known",
                 .where = "--emit",
                 .remedy = "give costs of layers, as `sluice plan --measure` writes them"});
  }
  return {.model = result.model,
          .partition = *answer.partition,
          .schedule = &answer.schedule,
          .csv_file = result.found && &answer == &*result.found ? arguments.out.value_or("") : ""};
}

void print_search(const ScheduleArguments& arguments, const SearchResult& result) {
  if (arguments.json) {
    Json object = search_json(result);
    if (arguments.emit && !search_shortage(result))
      object["emit"] = peer_layout_json(*arguments.emit, layout_of_search(arguments, result));
    print_exact(object.dump() + "\n");
  } else if (arguments.emit && !search_shortage(result)) {
    print_exact(peer_layout_text(*arguments.emit, layout_of_search(arguments, result)));
  } else {
    print_result(search_text(result, grid_options()), false);
  }
}

int search(const ScheduleArguments& arguments) {
  if (arguments.emit) require_trainer(*arguments.emit);
  ScheduleQuestion question;
  question.num_ranks = *arguments.num_ranks;
  question.num_microbatches = *arguments.num_microbatches;
  question.stages_per_rank = stages_per_rank_of(arguments);
  question.stage_to_rank = arguments.stage_to_rank.value_or("");
  question.layout = arguments.layout.value_or("");
  if (arguments.max_memory) question.max_bytes = bytes_of_max_memory(*arguments.max_memory);
  const std::string text = arguments.costs.value_or("");
  const bool is_file = !text.empty() && text.find('=') == std::string::npos;
  const SearchResult result = with_flags([&] {
    if (arguments.layer_costs) return search_with_layer_costs(question, *arguments.layer_costs);
    return is_file ? search_with_file(question, text)
                   : search_with_costs(question, parse_costs(text));
  });
  // A refused --emit must not leave a file behind.
  if (arguments.emit && !search_shortage(result))
    peer_layout_text(*arguments.emit, layout_of_search(arguments, result));
  if (arguments.out && result.found) {
    write_output_file(*arguments.out, to_csv(result.found->schedule.rows), "--out");
  }
  print_search(arguments, result);
  if (const std::optional<Error> shortage = search_shortage(result)) {
    finish_stdout();
    throw with_names(*shortage, flag_of);
  }
  return 0;
}

void draw(const ScheduleArguments& arguments, const Schedule& schedule, const Program& program) {
  const VerifyReport report = verify(program, transport_of(arguments, schedule));
  Picture picture;
  if (report.ok()) {
    const Costs costs = costs_of(arguments);
    picture = picture_of(schedule.name, program, simulate(program, costs), costs, {});
  } else {
    picture = picture_of_refused(schedule.name, program, report);
  }
  picture.critical_path = arguments.critical_path && report.ok();
  write_output_file(*arguments.draw, picture_as(*arguments.draw, picture, "--draw"), "--draw");
}

int run(const ScheduleArguments& arguments) {
  if (arguments.search) return search(arguments);
  if (arguments.draw) {
    require_picture_ending(*arguments.draw, "--draw");
    check_output_file(*arguments.draw, "--draw");
  }
  if (arguments.out && arguments.out->empty()) refuse_schedule("--out is empty", "name a file");
  if (arguments.out && arguments.out == arguments.draw)
    refuse_schedule("--out and --draw name the same file", "give each its own file");
  if (arguments.costs && (arguments.costs == arguments.draw || arguments.costs == arguments.out))
    refuse_schedule("the file of --costs would be replaced", "name another file to write to");
  const Schedule schedule = arguments.csv.empty() ? make_named(arguments) : read_file(arguments);
  bool is_as_given = true;
  const Program program = make_program(arguments, schedule, is_as_given);
  const auto& rows = is_as_given ? schedule.rows : program.ranks;

  Json object;
  std::string text;
  bool holds = true;
  if (arguments.check) {
    VerifyReport report = verify(program, transport_of(arguments, schedule));
    holds = report.ok();
    if (!holds && !arguments.json) text += draw_violations(program, report, grid_options());
    if (is_as_given) point_at_cells(schedule, report);
    object.update(verify_json(report));
    text += verify_text(report, is_as_given ? "cell" : "instruction");
  }
  if (arguments.simulate && holds) {
    const Costs costs = costs_of(arguments);
    const Simulation simulation = simulate(program, costs);
    object.update(simulation_json(simulation));
    if (arguments.timeline) object.update(timeline_json(program, simulation, costs));
    if (!arguments.json) text += draw_grid(simulation, grid_options());
    text += simulation_text(simulation);
  }
  if (arguments.draw) draw(arguments, schedule, program);
  if (arguments.out && holds) write_output_file(*arguments.out, to_csv(rows), "--out");
  if (!arguments.check && !arguments.simulate) {
    if (arguments.json)
      object = rows_json(program, rows);
    else if (!arguments.out && !arguments.draw)
      text = rows_text(arguments, program, rows);
  }
  print_result(arguments.json ? object.dump() + "\n" : text, arguments.json);
  return holds ? 0 : static_cast<int>(ErrorKind::kInput);
}

std::vector<OptionRule> schedule_rules() {
  std::vector<OptionRule> rules = {needs("--max-memory", "--search"),
                                   needs("--search", "--costs", "--layer-costs"),
                                   needs("--search", "--pp"), needs("--search", "--microbatches")};
  for (const char* other :
       {"--name", "--csv", "--lower", "--check", "--simulate", "--forward-only", "--draw"}) {
    const std::string option = other;
    rules.push_back(
        {.given = {"--search", other},
         .what = "--search and " + option + " exclude each other",
         .remedy = "leave " + option + " out: a search proves and simulates its result"});
  }
  const std::string sources = "give --name NAME --pp P --microbatches M, or --csv FILE";
  rules.push_back({{"--name", "--csv"}, {}, "--name and --csv exclude each other", sources});
  rules.push_back(
      {{}, {"--name", "--csv", "--search"}, "neither --name nor --csv is given", sources});
  rules.push_back({{"--stages", "--stages-per-rank"},
                   {},
                   "--stages and --stages-per-rank exclude each other",
                   "give one of them"});
  rules.push_back(needs("--name", "--pp"));
  rules.push_back(needs("--name", "--microbatches"));
  rules.push_back(needs("--stage-to-rank", "--csv", "--search"));
  for (const char* option :
       {"--shard-parameters", "--reduce-gradients", "--defer-recv", "--merge-backward"})
    rules.push_back(needs(option, "--lower", "--search"));
  rules.push_back(needs("--max-active-stages", "--shard-parameters", "--search"));
  rules.push_back({{"--costs"},
                   {"--simulate", "--search", "--draw"},
                   "--costs needs --simulate, --draw or --search",
                   "give one of them too"});
  rules.push_back(needs("--critical-path", "--draw"));
  rules.push_back(needs("--layout", "--search"));
  rules.push_back(needs("--layer-costs", "--search"));
  rules.push_back({{"--costs", "--layer-costs"},
                   {},
                   "--costs and --layer-costs exclude each other",
                   "give one of them"});
  rules.push_back(needs("--emit", "--search"));
  rules.push_back(not_built("--cluster", "give --costs or --layer-costs"));
  rules.push_back(needs("--for", "--check", "--draw"));
  rules.push_back(needs("--timeline", "--simulate"));
  rules.push_back(needs("--timeline", "--json"));
  return rules;
}

}  // namespace

Command schedule_command() {
  const auto arguments = std::make_shared<ScheduleArguments>();
  ScheduleArguments& a = *arguments;
  return {
      .name = "schedule",
      .help = "Makes, reads, lowers, proves, simulates and draws schedules.",
      .options = {{"--name", &a.name, "make this schedule, such as 1F1B or ZBVZeroBubble"},
                  {"--csv", &a.csv, "read a schedule in torch's CSV form: one row per rank"},
                  {"--pp", &a.num_ranks, "ranks", 1, detail::kMostRanks},
                  {"--stages-per-rank", &a.stages_per_rank, "stages per rank"},
                  {"--stages", &a.num_stages, "stages in total"},
                  {"--microbatches", &a.num_microbatches, "microbatches per step"},
                  {"--stage-to-rank", &a.stage_to_rank,
                   "with --csv or --search: loop, v, or the rank of each stage, such as 0,1,1,0"},
                  {"--lower", &a.lower, "add SEND and RECV"},
                  {"--shard-parameters", &a.shard_parameters, "with --lower: UNSHARD and RESHARD"},
                  {"--reduce-gradients", &a.reduce_gradients, "with --lower: REDUCE_GRAD"},
                  {"--max-active-stages", &a.max_active_stages,
                   "with --shard-parameters: most stages gathered at once; default 3"},
                  {"--defer-recv", &a.defer_receives,
                   "with --lower: RECV directly before the action that needs it, or before "
                   "the next transfer"},
                  {"--merge-backward", &a.merge_backward,
                   "with --lower: I directly followed by its W becomes B"},
                  {"--forward-only", &a.forward_only, "forwards alone, as in evaluation"},
                  {"--out", &a.out, "write the CSV to this file"},
                  {"--check", &a.check, "prove that it completes; exit code 3 if it does not"},
                  {"--for", &a.transport,
                   "with --check or --draw: the transport: sluice, torch or rendezvous; default "
                   "torch for a --csv with transfers, else sluice"},
                  {"--simulate", &a.simulate, "predict time and live activations"},
                  {"--costs", &a.costs,
                   "with --simulate, --draw or --search: F=1,I=1,W=1,B=2,comm=0, or a JSON file"},
                  {"--timeline", &a.timeline,
                   "with --simulate --json: also every action with its start and end, and the live "
                   "activations after each"},
                  {"--json", &a.json, "print one JSON value"},
                  {"--draw", &a.draw,
                   "write a picture to this file: .svg, .html, or .json for Perfetto; marks the "
                   "faults of a refused order"},
                  {"--critical-path", &a.critical_path, "with --draw: outline the critical path"},
                  {"--search", &a.search,
                   "search the best order under --costs and compare it with the named ones; needs "
                   "--pp and --microbatches"},
                  {"--layer-costs", &a.layer_costs, kLayerCostsHelp},
                  {"--cluster", &a.cluster, kClusterHelp},
                  {"--layout", &a.layout, kLayoutHelp},
                  {"--emit", &a.emit, emit_help()},
                  {"--max-memory", &a.max_memory,
                   "with --search: memory of a rank, as 80GB, 640MiB or a number of bytes; uses "
                   "kept_bytes and held_bytes of the costs"}},
      .rules = schedule_rules(),
      .run = [arguments] { return at_command("schedule", [&] { return run(*arguments); }); }};
}

}  // namespace sluice
