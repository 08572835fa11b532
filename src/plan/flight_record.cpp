#include "plan/flight_record.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/format.h"
#include "base/places.h"
#include "base/strict_json.h"
#include "base/words.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr const char* kFormat = "sluice flight record";
constexpr int kVersion = 2;
constexpr std::array kAxes = {"pp", "dp_replicate", "dp_shard", "cp", "tp"};
// Plans have at most 2^20 ranks.
constexpr std::int64_t kMaxRank = std::numeric_limits<std::int32_t>::max() - 1;

const detail::Words<FlightState>& states() {
  static const detail::Words<FlightState> table = {{"running", FlightState::kRunning},
                                                   {"waiting", FlightState::kWaiting},
                                                   {"done", FlightState::kDone},
                                                   {"failed", FlightState::kFailed}};
  return table;
}

// Requires each member to exist and have the right type.
class Reader {
 public:
  Reader(const Json& object, std::string place, const std::string& file)
      : object_(object), place_(std::move(place)), file_(file) {
    if (!object.is_object()) fail("", "an object");
  }

  const Json& at(const char* key) const {
    const Json* const found = object_.find(key);
    if (!found) fail(key, "there");
    return *found;
  }
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const {
    const Json& value = at(key);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.unsigned_integer() > std::uint64_t{INT64_MAX})) {
      fail(key, "a whole number");
    }
    const auto number = value.integer();
    if (number < least || number > most) fail(key, formatted("from {} to {}", least, most));
    return number;
  }
  int small(const char* key, std::int64_t least, std::int64_t most = kMaxRank) const {
    return static_cast<int>(integer(key, least, most));
  }
  double number(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number() || !std::isfinite(value.number())) fail(key, "a number");
    return value.number();
  }
  bool boolean(const char* key) const {
    if (!at(key).is_boolean()) fail(key, "true or false");
    return at(key).boolean();
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) fail(key, "a text");
    return at(key).text();
  }
  const Json::List& list(const char* key) const {
    if (!at(key).is_array()) fail(key, "a list");
    return at(key).list();
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> values;
    for (const Json& value : list(key)) {
      if (!value.is_string()) fail(key, "a list of texts");
      values.push_back(value.text());
    }
    return values;
  }
  std::vector<int> ranks(const char* key) const {
    std::vector<int> values;
    for (const Json& value : list(key)) {
      if (!value.is_number_integer() || value.integer() < -1 || value.integer() > kMaxRank) {
        fail(key, "a list of ranks");
      }
      values.push_back(static_cast<int>(value.integer()));
    }
    return values;
  }
  Reader object(const char* key) const { return Reader(at(key), name_of(key), file_); }
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const {
    throw Error(ErrorKind::kInput, {.what = "'" + name_of(key) + "' is not " + expected,
                                    .where = file_,
                                    .remedy = "name a folder of flight records as a run wrote it"});
  }

 private:
  std::string name_of(const std::string& key) const {
    if (place_.empty() || key.empty()) return place_ + key;
    return place_ + "." + key;
  }

  const Json& object_;
  const std::string place_;
  const std::string& file_;
};

Json json_of(const FlightEntry& entry) {
  Json object = {{"pass", entry.pass},
                 {"step", entry.step},
                 {"index", entry.index},
                 {"action", entry.action},
                 {"state", to_text(entry.state)},
                 {"start", entry.start},
                 {"seconds", entry.seconds},
                 {"waited", entry.waited},
                 {"bytes", entry.bytes},
                 {"peer", entry.peer}};
  object["waits_for"] = entry.waits_for;
  object["call"] = entry.call;
  object["missing"] = entry.missing;
  return object;
}

FlightEntry read_entry(const Reader& reader) {
  FlightEntry entry;
  entry.pass = reader.integer("pass", 0, INT64_MAX);
  entry.step = reader.integer("step", 0, INT64_MAX);
  entry.index = reader.small("index", 0);
  entry.action = reader.text("action");
  const std::string state = reader.text("state");
  const std::vector<std::string> words = detail::words_in(states());
  if (std::find(words.begin(), words.end(), state) == words.end())
    reader.fail("state", "running, waiting, done or failed");
  entry.state = detail::meaning_of(states(), state);
  entry.start = reader.number("start");
  entry.seconds = reader.number("seconds");
  entry.waited = reader.number("waited");
  entry.bytes = reader.integer("bytes", 0, INT64_MAX);
  entry.peer = reader.small("peer", -1);
  entry.waits_for = reader.texts("waits_for");
  entry.call = reader.text("call");
  entry.missing = reader.ranks("missing");
  return entry;
}

FlightRow read_row(const Reader& reader) {
  FlightRow row;
  row.fingerprint = reader.text("fingerprint");
  row.forward_only = reader.boolean("forward_only");
  row.num_microbatches = reader.small("microbatches", 0);
  row.instructions = reader.texts("instructions");
  row.peers = reader.ranks("peers");
  row.counterparts = reader.texts("counterparts");
  if (row.peers.size() != row.instructions.size())
    reader.fail("peers", "a list with one entry per instruction");
  if (row.counterparts.size() != row.instructions.size())
    reader.fail("counterparts", "a list with one entry per instruction");
  return row;
}

}  // namespace

std::string to_text(FlightState state) { return detail::word_of(states(), state); }

std::string waited_call(const FlightEntry& entry) {
  return entry.missing.empty() ? entry.call : entry.call + ", missing " + ranks_text(entry.missing);
}

std::string flight_file_name(int rank) { return formatted("rank_{}.json", rank); }

std::optional<int> rank_of_flight_file(std::string_view name) {
  constexpr std::string_view kStart = "rank_", kEnd = ".json";
  if (!name.starts_with(kStart) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kStart.size());
  if (name.size() <= kEnd.size()) return std::nullopt;
  name.remove_suffix(kEnd.size());
  int rank = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (error != std::errc() || rest != name.data() + name.size() || rank < 0) return std::nullopt;
  return flight_file_name(rank).size() == name.size() + kStart.size() + kEnd.size()
             ? std::optional(rank)
             : std::nullopt;
}

std::string flight_json(const FlightRecord& record) {
  Json object;
  object["format"] = kFormat;
  object["version"] = kVersion;
  object["run"] = record.run;
  object["rank"] = record.rank;
  object["num_ranks"] = record.num_ranks;
  for (std::size_t axis = 0; axis < kAxes.size(); ++axis)
    object["coordinates"][kAxes[axis]] = record.coordinates[axis];
  object["stages"] = record.stages;
  object["host"] = record.host;
  object["pid"] = record.pid;
  object["reason"] = record.reason;
  object["written"] = record.written;
  object["pass"] = record.pass;
  object["step"] = record.step;
  object["in_pass"] = record.in_pass;
  object["failure"] = nullptr;
  if (record.failure) {
    object["failure"] = {{"rank", record.failure->rank},
                         {"exit_code", record.failure->exit_code},
                         {"message", record.failure->message}};
  }
  object["actions"] = Json::array();
  for (const FlightEntry& entry : record.entries) object["actions"].push_back(json_of(entry));
  object["program"] = {{"fingerprint", record.row.fingerprint},
                       {"forward_only", record.row.forward_only},
                       {"microbatches", record.row.num_microbatches}};
  object["program"]["instructions"] = record.row.instructions;
  object["program"]["peers"] = record.row.peers;
  object["program"]["counterparts"] = record.row.counterparts;
  return object.dump() + "\n";
}

FlightRecord parse_flight_record(std::string_view text, const std::string& file_name) {
  const Json json = parse_strict_json(text, file_name);
  const Reader reader(json, "", file_name);
  if (reader.text("format") != kFormat) reader.fail("format", std::string("'") + kFormat + "'");
  reader.small("version", kVersion, kVersion);
  FlightRecord record;
  record.run = reader.text("run");
  record.num_ranks = reader.small("num_ranks", 1);
  record.rank = reader.small("rank", 0, record.num_ranks - 1);
  const Reader coordinates = reader.object("coordinates");
  for (std::size_t axis = 0; axis < kAxes.size(); ++axis)
    record.coordinates[axis] = coordinates.small(kAxes[axis], 0);
  record.stages = reader.ranks("stages");
  record.host = reader.text("host");
  record.pid = reader.integer("pid", 0, INT64_MAX);
  record.reason = reader.text("reason");
  record.written = reader.number("written");
  record.pass = reader.integer("pass", 0, INT64_MAX);
  record.step = reader.integer("step", 0, INT64_MAX);
  record.in_pass = reader.boolean("in_pass");
  record.row = read_row(reader.object("program"));
  for (const Json& entry : reader.list("actions")) {
    record.entries.push_back(read_entry(Reader(entry, "actions", file_name)));
    const FlightEntry& last = record.entries.back();
    if (last.pass == record.pass &&
        static_cast<std::size_t>(last.index) >= record.row.instructions.size())
      reader.fail("actions.index", "an instruction of the program");
  }
  if (!reader.at("failure").is_null()) {
    const Reader failure = reader.object("failure");
    record.failure = FlightFailure{failure.small("rank", -1), failure.small("exit_code", 0, 255),
                                   failure.text("message")};
  }
  return record;
}

FlightRecord read_flight_record(const std::string& path) {
  return parse_flight_record(read_text(path, kMaxFlightFile), path);
}

}  // namespace sluice
