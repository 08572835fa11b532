// sluice launch: processes of `sluice train` or `sluice eval` on this machine, and what becomes of
// them.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "launch/launch_job.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr const char* kWhere = "command 'sluice launch'";
constexpr std::int64_t kMaxProcesses = 4096;

struct LaunchArguments {
  std::optional<int> processes, max_restarts, nodes, node;
  std::string log_folder, rdzv, secret_file;
};

[[noreturn]] void refuse_launch(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = kWhere, .remedy = remedy});
}

// "HOST:PORT", "[::1]:29500"
StoreAddress meeting_place(const std::string& text) {
  StoreAddress place;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    place.host = text.substr(0, colon);
    if (place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']')
      place.host = place.host.substr(1, place.host.size() - 2);
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, place.port);
    if (error == std::errc() && rest == end && place.port >= 1 && place.port <= 65535 &&
        !place.host.empty()) {
      return place;
    }
  }
  refuse_launch("'" + text + "' is not a value of --rdzv",
                "give the machine of node 0 and a free port of it, as node0:29500");
}

std::string secret_of(const LaunchArguments& arguments) {
  if (arguments.secret_file.empty()) {
    const char* const value = std::getenv("SLUICE_JOB_SECRET");
    if (value && *value) return value;
    refuse_launch(
        "launchers on several machines need a secret that all of them know",
        "give --secret-file FILE or set SLUICE_JOB_SECRET to the same random text everywhere, as "
        "of 'openssl rand -hex 32'");
  }
  struct stat status;
  if (::stat(arguments.secret_file.c_str(), &status) == 0 &&
      (status.st_mode & (S_IRWXG | S_IRWXO))) {
    throw Error(ErrorKind::kUsage,
                {.what = "others than its owner may read or change the secret",
                 .where = arguments.secret_file,
                 .remedy = "chmod 600 " + arguments.secret_file + ", or make a new one"});
  }
  const std::string text = read_text(arguments.secret_file, 4096, ErrorKind::kUsage);
  const std::string secret(trim(text));
  if (!secret.empty()) return secret;
  throw Error(ErrorKind::kUsage,
              {.what = "the file of the secret is empty",
               .where = arguments.secret_file,
               .remedy = "put a random text in it, as of 'openssl rand -hex 32'"});
}

void read_nodes(const LaunchArguments& arguments, LaunchOptions& options) {
  options.num_nodes = arguments.nodes.value_or(1);
  options.node = arguments.node.value_or(0);
  if (options.num_nodes == 1) {
    if (arguments.node || !arguments.rdzv.empty() || !arguments.secret_file.empty()) {
      refuse_launch("--node-rank, --rdzv and --secret-file are for several machines",
                    "give --nnodes, or leave them out");
    }
    return;
  }
  if (!arguments.node || arguments.rdzv.empty()) {
    refuse_launch("several machines need --node-rank and --rdzv",
                  "give every machine its number, and all the same --rdzv HOST:PORT");
  }
  if (options.node >= options.num_nodes) {
    refuse_launch("--node-rank " + std::to_string(options.node) + " is not below --nnodes " +
                      std::to_string(options.num_nodes),
                  "number the machines from 0");
  }
  options.meeting = meeting_place(arguments.rdzv);
  options.secret = secret_of(arguments);
}

void require_command(const std::vector<std::string>& command) {
  const std::vector<std::string> known = {"train", "eval"};
  if (command.empty())
    refuse_launch("there is no command to launch", "write it after --, as in -- train run.toml");
  if (std::find(known.begin(), known.end(), command.front()) != known.end()) return;
  refuse_launch("'" + command.front() + "' cannot be launched",
                suggest_name(command.front(), known));
}

int launch(const LaunchArguments& arguments, const std::vector<std::string>& command) {
  if (!arguments.processes)
    refuse_launch("-n is missing", "give the number of processes on this machine, as -n 4");
  require_command(command);
  LaunchOptions options;
  options.processes = *arguments.processes;
  options.max_restarts = arguments.max_restarts.value_or(0);
  options.log_folder = arguments.log_folder;
  read_nodes(arguments, options);
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  options.command = {"sluice"};
  options.command.insert(options.command.end(), command.begin(), command.end());
  return launch_job(options);
}

}  // namespace

std::vector<std::string> take_launched(std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end()) return {};
  const std::vector<std::string> command(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return command;
}

void add_launch_command(CLI::App& app, const std::vector<std::string>& command, int& exit_code) {
  CLI::App* launcher =
      app.add_subcommand("launch", "Starts N processes of train or eval on this machine.");
  launcher->footer(
      "What is launched follows --, with options of its own:\n"
      "  sluice launch -n 4 -- train run.toml --training.steps 100\n"
      "Ctrl-C or SIGTERM asks all processes to stop; a second one, a second later, ends them.");
  const auto arguments = std::make_shared<LaunchArguments>();
  add_count(*launcher, "-n,--nproc-per-node", arguments->processes,
            "processes on this machine; they share the ranks evenly", 1, kMaxProcesses);
  add_count(*launcher, "--max-restarts", arguments->max_restarts,
            "start all again, this often, after a failure that may not come again: a process that "
            "was lost, ended by a signal, ran out of memory, or met a defect",
            0);
  launcher->add_option("--log-dir", arguments->log_folder,
                       "folder for rank_N.log, what process N writes; process 0 and all errors are "
                       "shown as well");
  add_count(*launcher, "--nnodes", arguments->nodes, "machines", 1, kMaxProcesses);
  add_count(*launcher, "--node-rank", arguments->node, "of this machine, from 0", 0, kMaxProcesses);
  launcher->add_option("--rdzv", arguments->rdzv,
                       "HOST:PORT of machine 0, where all launchers meet");
  launcher->add_option("--secret-file", arguments->secret_file,
                       "a secret that all machines know, in a file of this user alone; without it, "
                       "SLUICE_JOB_SECRET");
  launcher->callback([arguments, command, &exit_code] { exit_code = launch(*arguments, command); });
}

}  // namespace sluice
