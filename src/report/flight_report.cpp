#include "report/flight_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/words.h"
#include "plan/action_kinds.h"
#include "sluice/error.h"
#include "sluice/parts/action.h"

namespace sluice {
namespace {

constexpr std::array kGridAxes = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp,
                                  Axis::kTp};

const detail::Words<MismatchKind>& words() {
  static const detail::Words<MismatchKind> table = {
      {"missing", MismatchKind::kMissing},  {"program", MismatchKind::kProgram},
      {"channel", MismatchKind::kChannel},  {"failed", MismatchKind::kFailed},
      {"not_sent", MismatchKind::kNotSent}, {"lost", MismatchKind::kLost},
      {"circle", MismatchKind::kCircle},    {"collective", MismatchKind::kCollective}};
  return table;
}

constexpr std::size_t kMaxLine = 4000;

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ranks.size() && i < kMost; ++i)
    names.push_back(std::to_string(ranks[i]));
  if (ranks.size() > kMost) names.push_back(formatted(".. ({} in all)", ranks.size()));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ");
}

// Returns null if the rank is between two instructions.
const FlightEntry* current(const FlightRecord& record) {
  if (!record.in_pass || record.entries.empty()) return nullptr;
  const FlightEntry& last = record.entries.back();
  return last.pass == record.pass ? &last : nullptr;
}

bool waits(const FlightRecord& record) {
  const FlightEntry* const entry = current(record);
  return entry && (!entry->waits_for.empty() || !entry->call.empty());
}

std::string activity_text(const FlightRecord& record) {
  const FlightEntry* const entry = current(record);
  if (!entry) {
    return record.pass == 0 ? "has run nothing yet"
                            : "is between instructions, after step " + std::to_string(record.step);
  }
  std::string text =
      formatted("is at instruction {} '{}' of step {}, ", entry->index, entry->action, entry->step);
  if (!entry->call.empty())
    return text + "waiting " + fixed(entry->waited, 1) + " s in " + waited_call(*entry);
  if (!entry->waits_for.empty())
    return text + "waiting " + fixed(entry->waited, 1) + " s for " + join(entry->waits_for, ", ");
  if (entry->state == FlightState::kDone) return text + "done";
  if (entry->state == FlightState::kFailed)
    return text + "which failed after " + fixed(entry->seconds, 1) + " s";
  return text + "running for " + fixed(entry->seconds, 1) + " s";
}

int index_of(const std::vector<std::string>& texts, const std::string& text) {
  const auto found = std::find(texts.begin(), texts.end(), text);
  return found == texts.end() ? -1 : static_cast<int>(found - texts.begin());
}

class Alignment {
 public:
  explicit Alignment(FlightReport& report) : report_(report) {
    for (const FlightRecord& record : report.records) by_rank_[record.rank] = &record;
  }

  void find() {
    compare_programs();
    compare_channels();
    for (const FlightRecord& record : report_.records) {
      if (waits(record)) follow(record);
    }
    add_failure();
    add_missing();
    // Different programs explain all other mismatches, so they come first.
    std::stable_sort(report_.mismatches.begin(), report_.mismatches.end(),
                     [](const FlightMismatch& a, const FlightMismatch& b) {
                       return std::pair(order_of(a.kind), -a.waited) <
                              std::pair(order_of(b.kind), -b.waited);
                     });
  }

 private:
  static int order_of(MismatchKind kind) {
    switch (kind) {
      case MismatchKind::kProgram:
        return 0;
      case MismatchKind::kChannel:
        return 1;
      case MismatchKind::kFailed:
        return 2;
      case MismatchKind::kMissing:
        return 3;
      default:
        return 4;
    }
  }

  const FlightRecord* find_rank(int rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() ? nullptr : found->second;
  }

  // Keeps one mismatch per kind and rank, that with the longest wait.
  void add(MismatchKind kind, int rank, std::string text, double waited) {
    for (FlightMismatch& known : report_.mismatches) {
      if (known.kind != kind || known.rank != rank) continue;
      if (waited > known.waited) known = {kind, rank, std::move(text), waited};
      return;
    }
    report_.mismatches.push_back({kind, rank, std::move(text), waited});
  }

  void compare_programs() {
    std::map<std::int64_t, std::map<std::string, std::vector<int>>> of_pass;
    for (const FlightRecord& record : report_.records) {
      if (record.pass > 0) of_pass[record.pass][record.row.fingerprint].push_back(record.rank);
    }
    for (const auto& [pass, programs] : of_pass) {
      if (programs.size() < 2) continue;
      const std::vector<int>* most = nullptr;
      for (const auto& [fingerprint, ranks] : programs) {
        if (!most || ranks.size() > most->size()) most = &ranks;
      }
      for (const auto& [fingerprint, ranks] : programs) {
        if (&ranks == most) continue;
        add(MismatchKind::kProgram, ranks.front(),
            list_of(ranks) + (ranks.size() == 1 ? " runs" : " run") + " another program than " +
                list_of(*most),
            0);
      }
    }
  }

  // Compares the k-th send with the k-th receive of every channel, if both ranks run their n-th
  // program.
  void compare_channels() {
    for (const FlightRecord& receiver : report_.records) {
      std::map<std::pair<int, bool>, std::vector<std::string>>
          expected;  // by sending rank, and whether the channel carries activations
      each_transfer(receiver, detail::is_recv, [&](int i, const Action& action) {
        expected[{receiver.row.peers[i], is_activation(action)}].push_back(
            receiver.row.instructions[i]);
      });
      std::set<std::pair<int, bool>> channels;
      for (const auto& [channel, texts] : expected) channels.insert(channel);
      for (const auto& channel : channels) {
        const FlightRecord* const sender = find_rank(channel.first);
        if (!sender || sender->pass != receiver.pass) continue;
        std::vector<std::string> sent;
        each_transfer(*sender, detail::is_send, [&](int i, const Action& action) {
          if (sender->row.peers[i] == receiver.rank && is_activation(action) == channel.second)
            sent.push_back(sender->row.counterparts[i]);
        });
        compare_channel(*sender, receiver, channel.second, sent, expected[channel]);
      }
    }
  }

  void compare_channel(const FlightRecord& sender, const FlightRecord& receiver, bool activation,
                       const std::vector<std::string>& sent,
                       const std::vector<std::string>& expected) {
    const auto [a, b] = std::mismatch(sent.begin(), sent.end(), expected.begin(), expected.end());
    if (a == sent.end() && b == expected.end()) return;
    const auto text = [](const auto& at, const auto& list) {
      return at == list.end() ? std::string("nothing") : "'" + *at + "'";
    };
    add(MismatchKind::kChannel, receiver.rank,
        formatted("message {} of the channel of {} from {} to {}: the sender sends {}, the "
                  "receiver expects {}",
                  a - sent.begin(), activation ? "activations" : "gradients", name_of(sender.rank),
                  name_of(receiver.rank), text(a, sent), text(b, expected)),
        0);
  }

  template <typename Is, typename Visit>
  void each_transfer(const FlightRecord& record, Is is, Visit visit) {
    for (std::size_t i = 0; i < record.row.instructions.size(); ++i) {
      if (record.row.peers[i] < 0) continue;
      const std::optional<Action> action = action_of(record.row.instructions[i]);
      if (action && is(action->kind)) visit(static_cast<int>(i), *action);
    }
  }

  static std::optional<Action> action_of(const std::string& text) {
    try {
      return parse_action(text);
    } catch (const Error&) {
      return std::nullopt;  // unknown action, perhaps of a later version
    }
  }
  static bool is_activation(const Action& action) {
    return detail::channel_kind_of(action.kind) == ChannelKind::kActivation;
  }

  void follow(const FlightRecord& first) {
    std::vector<int> path;
    const FlightRecord* at = &first;
    const double waited = current(first)->waited;
    while (true) {
      if (const auto seen = std::find(path.begin(), path.end(), at->rank); seen != path.end()) {
        // Ranks give up at different moments, so their records may disagree on who had arrived.
        // Such a cycle is no cause.
        if (std::any_of(seen, path.end(), [&](int rank) {
              const FlightEntry& entry = *current(*find_rank(rank));
              return !entry.call.empty() && entry.state == FlightState::kFailed;
            }))
          return;
        std::vector<int> circle(seen, path.end());
        std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end()), circle.end());
        std::vector<std::string> links;
        for (const int rank : circle) {
          const FlightEntry& entry = *current(*find_rank(rank));
          links.push_back(name_of(rank) + (entry.call.empty()
                                               ? " waits for " + join(entry.waits_for, ", ")
                                               : " waits in " + waited_call(entry)));
        }
        add(MismatchKind::kCircle, circle.front(),
            "ranks wait for each other: " + join(links, ", "), waited);
        return;
      }
      path.push_back(at->rank);
      at = next(*at, waited);
      if (!at) return;
    }
  }

  const FlightRecord* next(const FlightRecord& record, double waited) {
    const FlightEntry& entry = *current(record);
    if (!entry.call.empty()) return look_at_call(record, entry, waited);
    const FlightRecord* chained = nullptr;
    for (const std::string& wanted : entry.waits_for) {
      const int own = index_of(record.row.instructions, wanted);
      const FlightRecord* const on = own >= 0 && record.row.peers[own] >= 0
                                         ? follow_message_wait(record, own, waited)
                                         : look_at_collective(record, wanted, waited);
      if (on && !chained) chained = on;
    }
    return chained;
  }

  static bool has_done(const FlightRecord& record, int index, const FlightRecord& other) {
    if (record.pass != other.pass) return record.pass > other.pass;
    if (!record.in_pass) return true;
    const FlightEntry* const entry = current(record);
    if (!entry) return false;
    return index < entry->index || (index == entry->index && entry->state == FlightState::kDone);
  }

  const FlightRecord* follow_message_wait(const FlightRecord& record, int own, double waited) {
    const int peer = record.row.peers[own];
    const std::string wanted = formatted("{} waits {} s for '{}' of step {} from {}",
                                         name_of(record.rank), fixed(current(record)->waited, 1),
                                         record.row.instructions[own], record.step, name_of(peer));
    const FlightRecord* const sender = find_rank(peer);
    if (!sender) {
      add(MismatchKind::kMissing, peer, wanted + ", which left no record", waited);
      return nullptr;
    }
    const std::string& send = record.row.counterparts[own];
    const int index = index_of(sender->row.instructions, send);
    if (sender->pass == record.pass && index < 0) {
      add(MismatchKind::kNotSent, peer, wanted + ", whose program never sends it", waited);
      return nullptr;
    }
    if (has_done(*sender, index, record)) {
      add(MismatchKind::kLost, peer,
          wanted + ", which has sent it ('" + send + "'): it was lost on the way", waited);
      return nullptr;
    }
    if (waits(*sender)) return sender;
    add(MismatchKind::kNotSent, peer,
        wanted + ", which has not sent it: it " + activity_text(*sender), waited);
    return nullptr;
  }

  std::vector<int> members_of(const FlightRecord& record, const std::string& text) const {
    const std::optional<Action> action = action_of(text);
    const AxisSet axes = action ? axes_of(action->kind) : AxisSet();
    std::vector<int> members;
    for (const FlightRecord& other : report_.records) {
      bool is_member = true;
      for (std::size_t i = 0; i < kGridAxes.size(); ++i) {
        if (!axes.has(kGridAxes[i]) && other.coordinates[i] != record.coordinates[i])
          is_member = false;
      }
      // A rank that runs another program must still arrive here, although its current instructions
      // lack it.
      const bool has_it = other.pass != record.pass || index_of(other.row.instructions, text) >= 0;
      if (is_member && has_it) members.push_back(other.rank);
    }
    return members;
  }

  // For an instruction in a collective call, whose missing ranks the record lists.
  const FlightRecord* look_at_call(const FlightRecord& record, const FlightEntry& entry,
                                   double waited) {
    const std::string waiting = formatted("{} waits {} s in instruction {} '{}' of step {}, in {}",
                                          name_of(record.rank), fixed(entry.waited, 1), entry.index,
                                          entry.action, record.step, waited_call(entry));
    const FlightRecord* chained = nullptr;
    for (const int member : entry.missing) {
      const FlightRecord* const other = find_rank(member);
      if (!other) {
        add(MismatchKind::kMissing, member, waiting + ", which left no record", waited);
        return nullptr;
      }
      if (!waits(*other)) {
        add(MismatchKind::kNotSent, member,
            waiting + ": " + name_of(member) + " " + activity_text(*other), waited);
        return nullptr;
      }
      if (!chained) chained = other;
    }
    if (entry.missing.empty())
      add(MismatchKind::kCollective, record.rank, waiting + ", to which all its members have come",
          waited);
    return chained;
  }

  const FlightRecord* look_at_collective(const FlightRecord& record, const std::string& wanted,
                                         double waited) {
    const std::string waiting = formatted("{} waits {} s for '{}' of step {}", name_of(record.rank),
                                          fixed(current(record)->waited, 1), wanted, record.step);
    const FlightRecord* chained = nullptr;
    bool all_came = true;
    for (const int member : members_of(record, wanted)) {
      if (member == record.rank) continue;
      const FlightRecord& other = *find_rank(member);
      const int index = index_of(other.row.instructions, wanted);
      if (has_done(other, index, record)) continue;
      all_came = false;
      if (waits(other)) {
        if (!chained) chained = &other;
        continue;
      }
      add(MismatchKind::kNotSent, member,
          waiting + ", to which " + name_of(member) + " has not come: it " + activity_text(other),
          waited);
      return nullptr;
    }
    if (!report_.missing.empty()) {
      add(MismatchKind::kMissing, report_.missing.front(),
          waiting + "; " + list_of(report_.missing) + " left no record", waited);
      return nullptr;
    }
    if (all_came) {
      add(MismatchKind::kCollective, record.rank, waiting + ", to which all its members have come",
          waited);
    }
    return chained;
  }

  void add_failure() {
    for (const FlightRecord& record : report_.records) {
      if (!record.failure) continue;
      const FlightFailure& failure = *record.failure;
      const std::string who = failure.rank < 0 ? "the run" : name_of(failure.rank);
      add(MismatchKind::kFailed, failure.rank, who + " failed: " + failure.message, 0);
      return;  // all ranks received the same failure
    }
  }

  void add_missing() {
    for (const int rank : report_.missing) {
      const bool known = std::any_of(report_.mismatches.begin(), report_.mismatches.end(),
                                     [&](const FlightMismatch& m) {
                                       return m.kind == MismatchKind::kMissing && m.rank == rank;
                                     });
      if (!known) add(MismatchKind::kMissing, rank, name_of(rank) + " left no record", 0);
    }
  }

  FlightReport& report_;
  std::map<int, const FlightRecord*> by_rank_;
};

void note_steps(FlightReport& report) {
  std::map<std::int64_t, std::vector<int>> by_step;
  for (const FlightRecord& record : report.records) by_step[record.step].push_back(record.rank);
  if (by_step.size() < 2) return;
  std::vector<std::string> parts;
  for (const auto& [step, ranks] : by_step)
    parts.push_back(formatted("{} in step {}", list_of(ranks), step));
  report.notes.push_back("ranks are in different steps: " + join(parts, ", "));
}

void note_times(FlightReport& report) {
  const auto [first, last] = std::minmax_element(
      report.records.begin(), report.records.end(),
      [](const FlightRecord& a, const FlightRecord& b) { return a.written < b.written; });
  const double apart = last->written - first->written;
  constexpr double kLong = 30;
  if (apart > kLong) {
    report.notes.push_back("the record of " + name_of(first->rank) + " was written " +
                           fixed(apart, 0) + " s before that of " + name_of(last->rank));
  }
}

}  // namespace

std::string to_text(MismatchKind kind) { return detail::word_of(words(), kind); }

FlightReport align_flight_records(std::vector<FlightRecord> records) {
  FlightReport report;
  const auto last = std::max_element(
      records.begin(), records.end(),
      [](const FlightRecord& a, const FlightRecord& b) { return a.written < b.written; });
  report.run = last->run;
  report.num_ranks = last->num_ranks;
  std::set<int> present;
  for (FlightRecord& record : records) {
    if (record.run != report.run) {
      report.notes.push_back("the record of " + name_of(record.rank) + " belongs to another run");
      continue;
    }
    const auto refuse = [&](const std::string& what) {
      throw Error(ErrorKind::kInput, {.what = what,
                                      .where = flight_file_name(record.rank),
                                      .remedy = "name a folder of one run's flight records"});
    };
    if (record.num_ranks != report.num_ranks) {
      refuse(formatted("the record is of a run of {}, but another record of {}",
                       counted(record.num_ranks, "rank"), report.num_ranks));
    }
    if (!present.insert(record.rank).second)
      refuse("the folder has a second record of " + name_of(record.rank));
    report.records.push_back(std::move(record));
  }
  std::sort(report.records.begin(), report.records.end(),
            [](const FlightRecord& a, const FlightRecord& b) { return a.rank < b.rank; });
  // A damaged record may claim any number of ranks, so limit the list.
  constexpr std::size_t kMostMissing = 1024;
  for (int rank = 0; rank < report.num_ranks && report.missing.size() < kMostMissing; ++rank) {
    if (!present.contains(rank)) report.missing.push_back(rank);
  }
  Alignment(report).find();
  note_steps(report);
  note_times(report);
  return report;
}

std::string describe(const FlightReport& report, int width) {
  TextTable table({{"rank", Align::kRight},
                   {"stages"},
                   {"step", Align::kRight},
                   {"instruction"},
                   {"state"},
                   {"for", Align::kRight},
                   {"waits for"}});
  for (const FlightRecord& record : report.records) {
    std::vector<std::string> stages;
    for (const int stage : record.stages) stages.push_back(std::to_string(stage));
    const FlightEntry* const entry = current(record);
    std::vector<std::string> row = {std::to_string(record.rank), join(stages, ","),
                                    std::to_string(record.step)};
    if (entry) {
      std::string from = join(entry->waits_for, ", ");
      if (!entry->waits_for.empty()) {
        const int own = index_of(record.row.instructions, entry->waits_for.front());
        if (own >= 0 && record.row.peers[own] >= 0)
          from += " from " + name_of(record.row.peers[own]);
      }
      if (!entry->call.empty()) from = waited_call(*entry);
      const bool waited = !from.empty();
      row.insert(row.end(),
                 {formatted("#{} {}", entry->index, entry->action), to_text(entry->state),
                  fixed(waited ? entry->waited : entry->seconds, 1) + " s", from});
    } else {
      row.insert(row.end(), {"between two", "", "", ""});
    }
    for (std::string& cell : row) cell = printable(cell);
    table.add_row(std::move(row));
  }
  std::string text = "run " + printable(report.run) + ", " + counted(report.num_ranks, "rank") +
                     "\n" + table.to_string("  ", width);
  if (report.mismatches.empty()) text += "no rank waits for another\n";
  for (std::size_t i = 0; i < report.mismatches.size(); ++i) {
    const FlightMismatch& mismatch = report.mismatches[i];
    text += wrapped((i == 0 ? "first mismatch (" : "also (") + to_text(mismatch.kind) +
                        "): " + printable(mismatch.text, kMaxLine),
                    width);
  }
  for (const std::string& note : report.notes)
    text += wrapped("note: " + printable(note, kMaxLine), width);
  return text;
}

std::string to_json(const FlightReport& report) {
  Json object;
  object["run"] = report.run;
  object["num_ranks"] = report.num_ranks;
  object["missing"] = report.missing;
  object["ranks"] = Json::array();
  for (const FlightRecord& record : report.records) {
    Json rank = {{"rank", record.rank},     {"host", record.host}, {"pid", record.pid},
                 {"reason", record.reason}, {"pass", record.pass}, {"step", record.step}};
    rank["stages"] = record.stages;
    const FlightEntry* const entry = current(record);
    rank["instruction"] = nullptr;
    if (entry) {
      rank["instruction"] = {{"index", entry->index},
                             {"action", entry->action},
                             {"state", to_text(entry->state)},
                             {"seconds", entry->seconds},
                             {"waited", entry->waited}};
      rank["instruction"]["waits_for"] = entry->waits_for;
      rank["instruction"]["call"] = entry->call;
      rank["instruction"]["missing"] = entry->missing;
    }
    object["ranks"].push_back(std::move(rank));
  }
  object["mismatches"] = Json::array();
  for (const FlightMismatch& mismatch : report.mismatches) {
    object["mismatches"].push_back({{"kind", to_text(mismatch.kind)},
                                    {"rank", mismatch.rank},
                                    {"text", mismatch.text},
                                    {"waited", mismatch.waited}});
  }
  object["mismatch"] = report.mismatches.empty() ? Json() : object["mismatches"].list().front();
  object["notes"] = report.notes;
  return object.dump();
}

}  // namespace sluice
