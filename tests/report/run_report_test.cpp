#include "report/run_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "base/printable.h"
#include "base/strict_json.h"
#include "plan/passes/passes.h"
#include "report/metrics_file.h"
#include "report/svg.h"
#include "sluice/schedule.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

template <typename Call>
void expect_input_error(Call&& call, const std::string& part) {
  const Error error = test::error_of(std::forward<Call>(call));
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

StepMetrics metrics_of(std::int64_t step, double loss) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = loss;
  metrics.grad_norm = 1;
  metrics.lr = 1e-3;
  metrics.tokens = 100;
  metrics.step_seconds = 0.5;
  metrics.bubble_fraction = 0.25;
  metrics.memory_bytes = {1000 + step, 2000};
  metrics.rank_seconds = {{.compute = 0.3, .other = 0.2}, {.compute = 0.4, .wait_receive = 0.1}};
  return metrics;
}

TEST(Curve, KeepsTheExtremesOfAnyNumberOfSteps) {
  Curve curve;
  for (std::int64_t step = 1; step <= 1'000'000; ++step)
    curve.add(step, step == 777'777 ? 99 : step == 31'415 ? -5 : 1);
  EXPECT_LE(curve.parts().size(), Curve::kMost);
  EXPECT_GE(curve.parts().size(), Curve::kMost / 2);
  double least = 0, most = 0;
  std::int64_t next = 1;
  for (const Curve::Part& part : curve.parts()) {
    EXPECT_EQ(part.first, next);
    next = part.last + 1;
    least = std::min(least, part.least);
    most = std::max(most, part.most);
  }
  EXPECT_EQ(next, 1'000'001);
  EXPECT_EQ(least, -5);
  EXPECT_EQ(most, 99);
  EXPECT_EQ(curve.last(), 1);
}

TEST(Curve, LeavesOutWhatIsNoNumber) {
  Curve curve;
  curve.add(1, 2);
  curve.add(2, std::nan(""));
  curve.add(3, 4);
  ASSERT_EQ(curve.parts().size(), 2u);
  EXPECT_EQ(curve.parts()[1].first, 3);
}

TEST(RunCurves, TheFirstStepDoesNotCountForTimes) {
  RunCurves curves;
  StepMetrics first = metrics_of(1, 5);
  first.rank_seconds = {{.compute = 100}, {.compute = 100}};
  curves.add(first);
  EXPECT_EQ(curves.counted, 1);
  EXPECT_EQ(curves.seconds.at(0).compute, 100);
  curves.add(metrics_of(2, 4));
  curves.add(metrics_of(3, 3));
  EXPECT_EQ(curves.counted, 2);
  EXPECT_DOUBLE_EQ(curves.seconds.at(0).compute, 0.6);
  EXPECT_DOUBLE_EQ(curves.seconds.at(1).wait_receive, 0.2);
  EXPECT_EQ(curves.peaks, (std::vector<std::int64_t>{1003, 2000}));
  EXPECT_EQ(curves.steps, 3);
  EXPECT_EQ(curves.loss.last(), 3);
}

TEST(ParseMetrics, IsTheInverse) {
  StepMetrics metrics = metrics_of(7, 3.25);
  metrics.validation_loss = 3.5;
  metrics.continuations = {{"a \"prompt\"", "and\nmore"}};
  metrics.parameter_norms = {{"model.norm.weight", 0.125}};
  const std::string line = to_json(metrics);
  const auto parsed = parse_metrics(line);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(to_json(*parsed), line);
  EXPECT_FALSE(parse_metrics(line.substr(0, line.size() - 3)).has_value());
  EXPECT_FALSE(parse_metrics("{\"step\": 0, \"loss\": 1}").has_value());
  EXPECT_FALSE(parse_metrics("[1]").has_value());
  EXPECT_FALSE(parse_metrics("").has_value());
}

Picture dual_pipe() {
  ScheduleShape shape;
  shape.num_ranks = 2;
  shape.num_microbatches = 6;
  const Program program = to_program(make_schedule("DualPipeV", shape));
  Costs costs;
  costs.per_stage.assign(4, {.forward = 1,
                             .backward_input = 1,
                             .backward_weight = 1,
                             .backward = 2,
                             .kept_bytes = 100,
                             .kept_after_input_bytes = 40});
  return picture_of("a <step>", program, simulate(program, costs), costs, {.unit = "s"});
}

TEST(PictureJson, KeepsAllThatIsDrawn) {
  const Picture picture = dual_pipe();
  ASSERT_FALSE(picture.pairs.at(0).empty());
  const Json object = parse_strict_json(picture_json(picture).dump(), "test");
  EXPECT_EQ(picture_svg(picture_of_json(object, "test")), picture_svg(picture));
}

TEST(PictureJson, RefusesWhatIsDamaged) {
  for (const char* key : {"title", "unit", "makespan", "ranks", "live_in_bytes"}) {
    Json object = picture_json(dual_pipe());
    object.erase(key);
    expect_input_error([&] { picture_of_json(object, "run.json"); }, "run.json");
  }
  Json object = picture_json(dual_pipe());
  object["ranks"] = Json::array();
  object["ranks"].push_back({{"busy", 1.0},
                             {"actions", Json::array()},
                             {"live", Json::array()},
                             {"pairs", std::vector<int>{5}}});
  expect_input_error([&] { picture_of_json(object, "run.json"); }, "pair");
}

Json facts(const std::string& ending, std::int64_t step) {
  Json object;
  object["format"] = 1;
  object["run"] = "0123456789abcdef";
  object["config"] = "tiny & <small>.toml";
  object["starts"] = Json::array();
  object["starts"].push_back({{"time", "2026-01-02T03:04:05Z"},
                              {"seconds", 0.0},
                              {"first_step", 1},
                              {"host", "here"},
                              {"cores", 2}});
  object["saves"] = std::vector<int>{2};
  object["settings"] = {{"optimizer.lr", Json{{"value", 0.25}, {"origin", "run.toml:3:1"}}},
                        {"training.seed", Json{{"value", 0}, {"origin", "default"}}}};
  object["plan"] = {{"model", Json{{"family", "llama"}, {"parameters", 1234567}}},
                    {"schedule", Json{{"name", "1F1B"}, {"num_microbatches", 4}}},
                    {"memory", Json::array()}};
  object["expected"] = picture_json(dual_pipe());
  object["warnings"] = std::vector<std::string>{"watch <out>"};
  if (!ending.empty()) {
    object["end"] = {{"time", "t"},
                     {"ending", ending},
                     {"step", step},
                     {"error", ending == "failed" ? "it \"broke\" & fell" : ""}};
  }
  return object;
}

RunRecord record_of(const std::string& ending, std::int64_t steps) {
  RunRecord run = {.folder = "folder", .facts = facts(ending, steps)};
  for (std::int64_t step = 1; step <= steps; ++step)
    run.curves.add(metrics_of(step, 5.0 - 0.5 * static_cast<double>(step)));
  return run;
}

TEST(Report, TellsOfARun) {
  const std::string page = report_html(record_of("failed", 3));
  for (const char* part : {"llama, 1,234,567 parameters", "ended by an error after step 3",
                           "it &quot;broke&quot; &amp; fell", "watch &lt;out&gt;", "optimizer.lr",
                           "run.toml:3:1", "tiny &amp; &lt;small&gt;.toml", "saved after step 2",
                           "step 3: 3.5", "a &lt;step&gt;", "forward and backward"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "src=", "href=", "@import", "url("})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  // The only address is the SVG namespace.
  for (std::size_t at = 0; (at = page.find("http", at)) != std::string::npos; ++at)
    EXPECT_EQ(page.substr(at, 26), "http://www.w3.org/2000/svg");
}

TEST(Report, NamesDataEpochsTokensAndDuration) {
  RunRecord run = record_of("stopped", 3);
  run.facts["settings"]["training.steps"] = {{"value", 150}, {"origin", "default"}};
  run.facts["data"] = {{"files", std::vector<std::string>{"corpus/<a>.txt"}},
                       {"num_files", 3},
                       {"bytes", 123456},
                       {"sequences", 48},
                       {"global_batch", 16}};
  run.facts["end"]["seconds"] = 200.0;
  const std::string page = report_html(run);
  for (const char* part : {"stopped by a signal after step 3 of 150",
                           "Data: corpus/&lt;a&gt;.txt and 2 more files, 123,456 bytes",
                           "48 sequences seen of 48: 1.00 epochs",
                           "counted tokens in the logged steps", "; took 3m20s."})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

std::vector<std::string> ends_of_axes(const std::string& page) {
  std::vector<std::string> ends;
  const std::regex tick(R"re(class="dim">([0-9.]+ (?:ms|%))</text>)re");
  for (std::size_t at = page.find("class=\"sluice\""); at != std::string::npos;) {
    const std::size_t end = page.find("</svg>", at);
    const std::string picture = page.substr(at, end - at);
    std::string last;
    for (std::sregex_iterator found(picture.begin(), picture.end(), tick), none; found != none;
         ++found)
      last = (*found)[1];
    ends.push_back(last);
    at = page.find("class=\"sluice\"", end);
  }
  return ends;
}

TEST(Report, StepsShareOneTimeAxis) {
  RunRecord run = record_of("finished", 3);
  Picture ran = dual_pipe();
  stretch(ran, 0.25, "s");
  run.facts["end"]["last_step"] = {{"step", 3}, {"picture", picture_json(ran)}};
  // Without measured times, both axes show percentages of their step.
  Picture counted = dual_pipe();
  stretch(counted, 33, "");
  run.facts["expected"] = picture_json(counted);
  EXPECT_EQ(ends_of_axes(report_html(run)), (std::vector<std::string>{"100 %", "100 %"}));
  Picture expected = dual_pipe();
  stretch(expected, 0.1, "s");
  run.facts["expected"] = picture_json(expected);
  EXPECT_EQ(ends_of_axes(report_html(run)), (std::vector<std::string>{"250.0 ms", "250.0 ms"}));
}

TEST(Report, TheAxisOfARateStartsAtZero) {
  RunRecord run = record_of("finished", 0);
  for (std::int64_t step = 1; step <= 3; ++step) {
    StepMetrics metrics = metrics_of(step, 4);
    metrics.tokens = 1000 + step;
    metrics.step_seconds = 1;
    run.curves.add(metrics);
  }
  const std::string page = report_html(run);
  const std::size_t chart = page.find(">tokens a second</text>");
  ASSERT_NE(chart, std::string::npos);
  const std::size_t zero = page.find(">0</text>", chart);
  EXPECT_LT(zero, page.find("</svg>", chart));
}

TEST(Report, OfARunWithoutStepsSaysSo) {
  const std::string page = report_html(record_of("", 0));
  EXPECT_NE(page.find("No step is logged yet"), std::string::npos);
  EXPECT_NE(page.find("not ended"), std::string::npos);
}

TEST(Report, ShowsAnotherBesideIt) {
  RunRecord other = record_of("finished", 2);
  other.folder = "elsewhere";
  other.facts["settings"]["optimizer.lr"] = {{"value", 0.5}, {"origin", "default"}};
  const RunRecord run = record_of("finished", 3);
  const std::string page = report_html(run, &other);
  for (const char* part : {"elsewhere", "These differ:", "<td class=\"l\">0.25</td>",
                           "<td class=\"l\">0.5</td>", "the other's"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(report_html(run, &run).find("All settings of both runs are alike"), std::string::npos);
}

class RunFolder : public ::testing::Test {
 protected:
  std::string folder() const { return folder_ / ""; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  test::TempDirectory folder_;
};

TEST_F(RunFolder, IsRead) {
  write("run.json", facts("", 0).dump());
  write("metrics.jsonl", to_json(metrics_of(1, 4)) + "\n" + to_json(metrics_of(2, 3)) + "\nhalf");
  const RunRecord run = read_run(folder());
  EXPECT_EQ(run.curves.steps, 2);
  EXPECT_EQ(run.curves.loss.last(), 3);
  EXPECT_EQ(run.foreign_lines, 1);
}

TEST_F(RunFolder, LinesOfAnEarlierRunAreNotItsOwn) {
  write("metrics.jsonl", to_json(metrics_of(1, 4)) + "\n");
  write("run.json", facts("failed", 0).dump());
  EXPECT_EQ(read_run(folder()).curves.steps, 0);
  Json later = facts("", 0);
  later["starts"] = Json::array();
  later["starts"].push_back({{"seconds", 1e12}, {"first_step", 1}});
  write("run.json", later.dump());
  EXPECT_EQ(read_run(folder()).curves.steps, 0);
}

TEST_F(RunFolder, WithoutOrWithADamagedRunJsonIsAnError) {
  expect_input_error([&] { read_run(folder()); }, "run.json");
  write("run.json", "{\"format\": 1}");
  expect_input_error([&] { read_run(folder()); }, "not a run.json of this version");
  write("run.json", "{\"format\": 1");
  expect_input_error([&] { read_run(folder()); }, "run.json:1");
}

// -
std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

RunRecord run_with_rates(const std::vector<double>& rates) {
  RunRecord run = {.folder = "folder", .facts = facts("finished", 3)};
  std::int64_t step = 0;
  for (const double rate : rates) {
    StepMetrics metrics = metrics_of(++step, 2);
    metrics.lr = rate;
    run.curves.add(metrics);
  }
  return run;
}

TEST(Report, AnAxisOfAnyRangeHasFewMarks) {
  constexpr double kUnit = std::numeric_limits<double>::epsilon();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  constexpr double kMost = std::numeric_limits<double>::max();
  const std::size_t usual = count_of(report_html(run_with_rates({1, 2, 3})), "<path class=\"g\"");
  for (const std::vector<double>& rates :
       std::vector<std::vector<double>>{{3e-4, 3e-4 * (1 + kUnit)},
                                        {3e-4, 3e-4 * (1 + 4 * kUnit)},
                                        {-1, -1 - 2 * kUnit},
                                        {1e16, 1e16 + 2},
                                        {kLeast, 2 * kLeast},
                                        {0, kLeast},
                                        {-kLeast, 0, kLeast},
                                        {kLeast, kMost},
                                        {-kMost, kMost},
                                        {kMost, kMost},
                                        {5, 5},
                                        {0, 0},
                                        {std::nan(""), std::numeric_limits<double>::infinity()}}) {
    const std::string page = report_html(run_with_rates(rates));
    EXPECT_LE(count_of(page, "<path class=\"g\""), usual + svg::kMostTicks) << rates.front();
    EXPECT_EQ(page.find("nan"), std::string::npos) << rates.front();
  }
}

TEST(Report, APictureOfTheSmallestTimesIsDrawn) {
  RunRecord run = record_of("finished", 2);
  for (const double makespan : {1e-323, 5e-324, 1e-300, 1e300, 0.0}) {
    run.facts["expected"]["makespan"] = makespan;
    EXPECT_NE(report_html(run).find("</svg>"), std::string::npos) << makespan;
  }
}

// A picture with more actions than the report draws as single boxes.
Picture dense_picture(std::size_t count, const std::function<TimedAction(std::size_t)>& action) {
  Picture picture = {.title = "dense", .subtitle = "picture"};
  picture.simulation.makespan = 1;
  RankTimeline& rank = picture.simulation.ranks.emplace_back();
  for (std::size_t i = 0; i < count; ++i) rank.actions.push_back(action(i));
  picture.live.emplace_back();
  picture.pairs.emplace_back();
  return picture;
}

// If every pixel column visited every action, this would take 5 * 10^9 visits.
TEST(Report, ActionsThatAllLastForTheWholeStepAreDrawnOneByOne) {
  const std::string svg = picture_svg(dense_picture(3'000'000, [](std::size_t) {
    return TimedAction{Action::make(ActionKind::kForward, 0, 0), 0, 1};
  }));
  EXPECT_LT(svg.size(), 10'000u);
  EXPECT_NE(svg.find("<path class=\"F0\" d=\"M62"), std::string::npos) << svg;
}

TEST(Report, APictureOfAnyNumberOfStagesHasAFewShades) {
  const std::string svg = picture_svg(dense_picture(200'000, [](std::size_t i) {
    const auto start = static_cast<double>(i);
    return TimedAction{Action::make(ActionKind::kForward, static_cast<int>(i), 0), start / 2e5,
                       (start + 1) / 2e5};
  }));
  EXPECT_LT(svg.size(), 100'000u);
  EXPECT_NE(svg.find("paler: later stages of the rank"), std::string::npos);
  EXPECT_NE(svg.find("<path class=\"F63\""), std::string::npos);
}

TEST(Report, TimesOfAnySizeGiveAPictureOfBoundedSize) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double values[] = {-infinity, -1e308, 0, 5e-324, 1e-300, 1, 1e308, infinity, std::nan("")};
  for (const double makespan : values) {
    for (const double start : values) {
      for (const double end : values) {
        Picture picture = dense_picture(7'000, [&](std::size_t i) {
          if (i % 2 == 0) return TimedAction{Action::make(ActionKind::kForward, 0, 0), start, end};
          return TimedAction{Action::make(ActionKind::kBackward, 0, 0), 0.0, 1.0};
        });
        picture.simulation.makespan = makespan;
        picture.simulation.ranks.front().busy = end;
        const std::string svg = picture_svg(picture);
        ASSERT_LT(svg.size(), 60'000u) << makespan << " " << start << " " << end;
        ASSERT_EQ(svg.find("nan"), std::string::npos) << makespan << " " << start << " " << end;
      }
    }
  }
}

TEST(PictureJson, RefusesMoreRanksThanAScheduleHas) {
  Json object = picture_json(dual_pipe());
  Json& ranks = object["ranks"];
  const Json one = {
      {"busy", 1.0}, {"actions", Json::array()}, {"live", Json::array()}, {"pairs", Json::array()}};
  ranks = Json::array();
  for (int i = 0; i < 1 << 16; ++i) ranks.push_back(one);
  EXPECT_NO_THROW(picture_of_json(object, "run.json"));
  ranks.push_back(one);
  expect_input_error([&] { picture_of_json(object, "run.json"); }, "65537 ranks");
}

TEST(Report, IsUtf8WhateverTheRunLeft) {
  RunRecord run = record_of("finished", 2);
  run.curves.continuations = {{"prompt \xe2\x82", "\xac and \xff"}};
  run.facts["config"] = "caf\xe9.toml";
  const std::string page = report_html(run);
  EXPECT_EQ(valid_utf8(page), page);
  EXPECT_NE(page.find("caf\xef\xbf\xbd.toml"), std::string::npos);
}

TEST(ReadCurves, ALineThatNoRunWroteIsNotHeld) {
  const test::TempDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  const std::string step = "{\"step\": 1, \"loss\": 2}\n";
  test::write_file(path, step + std::string(MetricsFile::kLongestLine + 1, 'x') + "\n" +
                             "{\"step\": 2, \"loss\": 1}\n");
  RunCurves curves;
  EXPECT_EQ(read_curves(path, 10, curves), 1);
  EXPECT_EQ(curves.steps, 2);
  // A sparse hole of terabytes is not a line.
  std::error_code no_room;
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42, no_room);
  if (no_room) return;
  expect_input_error([&] { read_curves(path, 10, curves); }, path + ":4");
}

TEST(Report, ManySettingsAreLookedUpOnceEach) {
  // A scan of all settings for each setting would take minutes.
  RunRecord run = record_of("finished", 1);
  std::string settings = "{";
  for (int i = 0; i < 200'000; ++i)
    settings +=
        (i ? ",\"key" : "\"key") + std::to_string(i) + "\":{\"value\":1,\"origin\":\"default\"}";
  run.facts["settings"] = parse_strict_json(settings + "}", "test", KeyOrder::kAsWritten);
  const RunRecord other = run;
  EXPECT_NE(report_html(run, &other).find("key199999"), std::string::npos);
}

}  // namespace
}  // namespace sluice
