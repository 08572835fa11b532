#include "plan/flight_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"

namespace sluice::test::flight_record_test {
namespace {

FlightRecord sample() {
  FlightRecord record;
  record.run = "a run";
  record.rank = 1;
  record.num_ranks = 2;
  record.coordinates = {1, 0, 0, 0, 0};
  record.stages = {1};
  record.host = "node";
  record.pid = 4711;
  record.reason = "failure";
  record.written = 1000.25;
  record.pass = record.step = 3;
  record.in_pass = true;
  record.row = {"f00", false, 2, {"1RECV_F0", "1F0"}, {0, -1}, {"0SEND_F0", ""}};
  record.entries = {
      {3, 3, 0, "1RECV_F0", FlightState::kDone, 999, 0.5, 0, 0, 0, {}},
      {3, 3, 1, "1F0", FlightState::kWaiting, 999.5, 0.75, 0.7, 64, -1, {"1RECV_F0"}},
      {3, 3, 1, "1F0", FlightState::kWaiting, 1000.25, 0.1, 0.1, 0, -1, {}, "1F0 a (2)", {0, 3}}};
  record.failure = FlightFailure{0, 5, "rank 0 was lost"};
  return record;
}

std::string refusal(const nlohmann::json& json) {
  return message_of([&] { parse_flight_record(json.dump(), "rank_1.json"); });
}

TEST(FlightRecordTest, IsReadAsItWasWritten) {
  const std::string text = flight_json(sample());
  const FlightRecord read = parse_flight_record(text, "rank_1.json");
  EXPECT_EQ(flight_json(read), text);
  EXPECT_EQ(read.entries.at(1).waits_for, std::vector<std::string>{"1RECV_F0"});
  EXPECT_EQ(read.entries.at(1).state, FlightState::kWaiting);
  ASSERT_TRUE(read.failure);
  EXPECT_EQ(read.failure->message, "rank 0 was lost");
}

TEST(FlightRecordTest, OfARankThatHasRunNothingIsOne) {
  FlightRecord record;
  record.run = "a run";
  EXPECT_EQ(flight_json(parse_flight_record(flight_json(record), "x")), flight_json(record));
}

TEST(FlightRecordTest, QuotesWhatIsNoUtf8) {
  FlightRecord record = sample();
  record.failure->message = "bad \xff byte";
  EXPECT_EQ(parse_flight_record(flight_json(record), "x").failure->message,
            "bad \xef\xbf\xbd byte");
}

TEST(FlightRecordTest, EveryValueIsCheckedForItsType) {
  const nlohmann::json good = nlohmann::json::parse(flight_json(sample()));
  std::vector<nlohmann::json::json_pointer> places;
  const nlohmann::json flat = good.flatten();
  for (const auto& [place, value] : flat.items()) {
    nlohmann::json::json_pointer pointer(place);
    for (; !pointer.empty(); pointer = pointer.parent_pointer()) places.push_back(pointer);
  }
  int refused = 0;
  for (const auto& place : places) {
    // `failure` may be null, and times may be any number.
    const std::string name = place.back();
    for (const nlohmann::json& wrong : {nlohmann::json(nlohmann::json::object({{"x", 1}})),
                                        nlohmann::json(-7), nlohmann::json(true)}) {
      nlohmann::json spoilt = good;
      if (spoilt[place].type() == wrong.type()) continue;
      if (wrong.is_number() &&
          (name == "seconds" || name == "waited" || name == "start" || name == "written")) {
        continue;
      }
      spoilt[place] = wrong;
      EXPECT_EQ(error_of([&] { parse_flight_record(spoilt.dump(), "f"); }).kind(),
                ErrorKind::kInput)
          << place.to_string() << " = " << wrong;
      ++refused;
    }
    nlohmann::json without = good;
    if (!without[place.parent_pointer()].is_object()) continue;
    without[place.parent_pointer()].erase(place.back());
    EXPECT_EQ(error_of([&] { parse_flight_record(without.dump(), "f"); }).kind(), ErrorKind::kInput)
        << place.to_string();
  }
  EXPECT_GT(refused, 100);
}

TEST(FlightRecordTest, ListsOfARowHaveOneLength) {
  nlohmann::json spoilt = nlohmann::json::parse(flight_json(sample()));
  spoilt["program"]["peers"].push_back(3);
  EXPECT_EQ(refusal(spoilt),
            "'program.peers' is not a list with one entry per instruction; rank_1.json; name a "
            "folder of flight "
            "records as a run wrote it");
  spoilt = nlohmann::json::parse(flight_json(sample()));
  spoilt["actions"][1]["index"] = 2;
  EXPECT_EQ(refusal(spoilt).substr(0, 15), "'actions.index'");
  spoilt = nlohmann::json::parse(flight_json(sample()));
  spoilt["rank"] = 2;
  EXPECT_EQ(refusal(spoilt).substr(0, 24), "'rank' is not from 0 to ");
}

TEST(FlightRecordTest, AVersionOfTheFutureIsRefused) {
  nlohmann::json json = nlohmann::json::parse(flight_json(sample()));
  json["version"] = 3;
  EXPECT_EQ(refusal(json).substr(0, 9), "'version'");
}

TEST(FlightRecordTest, FilesAreNamedByTheirRank) {
  EXPECT_EQ(flight_file_name(12), "rank_12.json");
  EXPECT_EQ(rank_of_flight_file("rank_12.json"), 12);
  for (const char* other : {"rank_.json", "rank_01.json", "rank_-1.json", "rank_1.json.tmp",
                            "rank_99999999999.json", "rank_1x.json", "run_1.json", ".json", ""}) {
    EXPECT_FALSE(rank_of_flight_file(other)) << other;
  }
}

}  // namespace
}  // namespace sluice::test::flight_record_test
