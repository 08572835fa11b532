#include "report/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <tuple>

#include "plan/passes/passes.h"
#include "report/svg.h"
#include "sluice/error.h"
#include "sluice/schedule.h"
#include "support/golden.h"

namespace sluice {
namespace {

Picture picture_named(const std::string& name, int ranks, int microbatches, int stages = 0) {
  ScheduleShape shape;
  shape.num_ranks = ranks;
  shape.num_microbatches = microbatches;
  shape.stages_per_rank = stages;
  const Program program = to_program(make_schedule(name, shape));
  return picture_of(name, program, simulate(program), {}, {});
}

// ---- colors ----

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

Vector times(const Matrix& matrix, const Vector& vector) {
  Vector result{};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t i = 0; i < 3; ++i) result.at(row) += matrix.at(row).at(i) * vector.at(i);
  return result;
}

// Linear RGB, from table 1, severity 1, of Machado, Oliveira, Fernandes (2009), "A
// Physiologically-based Model for Simulation of Color Vision Deficiency".
const std::vector<std::pair<double, Matrix>> kEyes = {{50, {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
                                                      {30,
                                                       {{{0.152286, 1.052583, -0.204868},
                                                         {0.114503, 0.786281, 0.099216},
                                                         {-0.003882, -0.048116, 1.051998}}}},
                                                      {30,
                                                       {{{0.367322, 0.860646, -0.227968},
                                                         {0.280085, 0.672501, 0.047413},
                                                         {-0.011820, 0.042940, 0.968881}}}},
                                                      {25,
                                                       {{{1.255528, -0.076749, -0.178779},
                                                         {-0.078411, 0.930809, 0.147602},
                                                         {0.004733, 0.691367, 0.303900}}}}};

// CIELAB (1976) of linear sRGB (IEC 61966-2-1) under D65.
Vector lab(const Vector& linear) {
  const Matrix to_xyz = {{{0.4124564, 0.3575761, 0.1804375},
                          {0.2126729, 0.7151522, 0.0721750},
                          {0.0193339, 0.1191920, 0.9503041}}};
  constexpr Vector kWhite = {0.95047, 1.0, 1.08883};
  Vector f = times(to_xyz, linear);
  for (std::size_t i = 0; i < 3; ++i) {
    const double share = f.at(i) / kWhite.at(i);
    f.at(i) = share > 216.0 / 24389 ? std::cbrt(share) : (24389.0 / 27 * share + 16) / 116;
  }
  return {116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}

Vector seen(const detail::Rgb& color, const Matrix& eye) {
  Vector linear{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double part = color.at(i) / 255.0;
    linear.at(i) = part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  }
  Vector result = times(eye, linear);
  for (double& part : result) part = std::clamp(part, 0.0, 1.0);
  return lab(result);
}

TEST(PictureTest, ColoursAreFarApartForEveryKindOfEyes) {
  const auto& colors = detail::picture_colors();
  ASSERT_EQ(colors.size(), 4u);
  for (const auto& [least, eye] : kEyes) {
    for (std::size_t i = 0; i < colors.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Vector a = seen(colors[i].second, eye), b = seen(colors[j].second, eye);
        EXPECT_GE(std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]), least) << i << " and " << j;
      }
    }
  }
}

// ---- pictures ----

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

// Every tag is closed in order, and every character is valid in XML.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)((?:\\s+[a-zA-Z:-]+=\"[^\"<]*\")*)\\s*(/?)>");
  std::size_t tags = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it, ++tags) {
    if ((*it)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), (*it)[2].str());
      open.pop_back();
    } else if ((*it)[4].length() == 0) {
      open.push_back((*it)[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(tags, count(svg, "<"));
}

TEST(PictureTest, AreTheGoldenOnes) {
  for (const auto& [name, ranks, microbatches] :
       {std::tuple("ZBVZeroBubble", 4, 8), std::tuple("DualPipeV", 4, 10),
        std::tuple("Interleaved1F1B", 8, 32)}) {
    Picture picture = picture_named(name, ranks, microbatches);
    picture.critical_path = std::string(name) == "DualPipeV";
    const std::string svg = picture_svg(picture);
    expect_well_formed(svg);
    testing::expect_golden("pictures/" + std::string(name) + ".svg", svg);
  }
}

TEST(PictureTest, EveryActionHasACellAndEveryCellThatHasRoomItsNumber) {
  const Picture picture = picture_named("1F1B", 4, 8);
  const std::string svg = picture_svg(picture);
  const std::regex cell("M[0-9.]+ [0-9.]+h[0-9.]+v[0-9.]+h-[0-9.]+z");
  EXPECT_EQ(std::distance(std::sregex_iterator(svg.begin(), svg.end(), cell), {}), 4 * 8 * 2);
  EXPECT_EQ(count(svg, "<text class=\"tF0\""), 32u);
  EXPECT_EQ(count(svg, "<text class=\"tB0\""), 32u);
  EXPECT_EQ(count(svg, ">peak 4<"), 1u);
  EXPECT_EQ(count(svg, ">peak 1<"), 1u);
  EXPECT_EQ(count(svg, ">idle 27.3%<"), 4u);
}

TEST(PictureTest, ALargeScheduleIsATexture) {
  const std::string svg = picture_svg(picture_named("Interleaved1F1B", 64, 256, 2));
  EXPECT_LT(svg.size(), 400'000u);
  EXPECT_GT(count(svg, "<path class="), 64u * 4);
  // Boxes stay within their lane, and the area of each color matches the work: 512 forwards of 1,
  // 512 backwards of 2.
  const std::regex path("<path class=\"([FB])[01]\" d=\"M62 [0-9.]+([^\"]*)\"");
  const std::regex run("m(-?[0-9.]+) 0h([0-9.]+)");
  double forward = 0, backward = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), path), end; it != end; ++it) {
    const std::string runs = (*it)[2].str();
    double at = 0;
    for (std::sregex_iterator each(runs.begin(), runs.end(), run); each != end; ++each) {
      at += std::stod((*each)[1].str()) + std::stod((*each)[2].str());
      ((*it)[1].str() == "F" ? forward : backward) += std::stod((*each)[2].str());
    }
    EXPECT_LE(at, 1600);
  }
  EXPECT_NEAR(backward / forward, 2, 0.05);
}

TEST(PictureTest, TheCurveIsThePeakOfTheSimulation) {
  for (const char* name : {"GPipe", "1F1B", "ZBVZeroBubble", "DualPipeV"}) {
    const Picture picture = picture_named(name, 4, 8);
    for (const RankTimeline& rank : picture.simulation.ranks) {
      double peak = 0;
      const std::vector<LivePoint> points = live_curve(rank, {});
      for (const LivePoint& point : points) peak = std::max(peak, point.live);
      EXPECT_EQ(peak, rank.peak_live) << name;
      EXPECT_EQ(points.back().live, 0) << name;
    }
  }
}

TEST(PictureTest, EscapesWhatItIsCalled) {
  Picture picture = picture_named("1F1B", 2, 2);
  picture.title = "a <script> & \"b\"\x01";
  expect_well_formed(picture_svg(picture));
  EXPECT_EQ(picture_html(picture).find("<script> &"), std::string::npos);
}

TEST(PictureTest, APageLoadsNothing) {
  const std::string page = picture_html(picture_named("ZBVZeroBubble", 4, 8));
  EXPECT_EQ(page.find('@'), page.find("@media"));
  EXPECT_EQ(count(page, "http"), 0u);
  EXPECT_EQ(count(page, " src="), 0u);
}

TEST(PictureTest, APageHoldsTheNumbersOfEveryAction) {
  const std::string page = picture_html(picture_named("ZBVZeroBubble", 4, 8));
  const std::string_view tag = "id=\"data\">";
  const std::size_t begin = page.find(tag) + tag.size();
  const auto data =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  ASSERT_EQ(data.at("ranks").size(), 4u);
  std::set<std::tuple<std::string, int, int>> actions;
  for (const auto& rank : data.at("ranks")) {
    const auto& numbers = rank.at("actions");
    ASSERT_EQ(numbers.size() % 5, 0u);
    std::int64_t before = 0;
    for (std::size_t i = 0; i < numbers.size(); i += 5) {
      actions.emplace(data.at("kinds").at(numbers[i].get<std::size_t>()).at("name"), numbers[i + 1],
                      numbers[i + 2]);
      EXPECT_LE(before, numbers[i + 3].get<std::int64_t>());
      before = numbers[i + 4];
    }
    EXPECT_LE(before, data.at("end").get<std::int64_t>());
  }
  EXPECT_EQ(actions.size(), 8u * 8 * 3);
  EXPECT_TRUE(actions.contains({"gradient of the weights", 7, 7}));
}

TEST(PictureTest, ATraceHasEveryAction) {
  const auto trace = nlohmann::json::parse(picture_trace(picture_named("1F1B", 2, 3)));
  std::size_t actions = 0;
  double end = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++actions;
    end = std::max(end, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_EQ(actions, 12u);
  EXPECT_EQ(end, 12'000);
}

TEST(PictureTest, MarksWhatWasRefused) {
  ScheduleShape shape;
  shape.num_ranks = 2;
  shape.num_microbatches = 2;
  Program program = to_program(make_schedule("GPipe", shape));
  std::swap(program.ranks[1].front(), program.ranks[1].back());
  const VerifyReport report = verify(program);
  ASSERT_FALSE(report.ok());
  const std::string svg = picture_svg(picture_of_refused("mine", program, report));
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "<path class=\"bad\""), 1u);
  EXPECT_NE(svg.find("mine: refused"), std::string::npos);
  EXPECT_GE(count(svg, "class=\"bad\">rank 1: "), 1u);
}

TEST(PictureTest, OtherEndingsAreRefused) {
  EXPECT_THROW(require_picture_ending("x.png", "--draw"), Error);
  EXPECT_THROW(require_picture_ending("", "--draw"), Error);
  EXPECT_NO_THROW(require_picture_ending("x.html", "--draw"));
}

TEST(AxisTicksTest, AreMultiplesOfARoundStep) {
  EXPECT_EQ(svg::axis_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(svg::axis_ticks(-3, 3, 5), (std::vector<double>{-2, 0, 2}));
}

TEST(AxisTicksTest, AreFewForEveryRange) {
  const double largest = std::numeric_limits<double>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  const double values[] = {-infinity, -largest, -1,       -1e-323,     0,           5e-324,
                           1e-323,    1e-310,   1e-9,     1,           1 + 2.3e-16, 1e16,
                           1e16 + 2,  largest,  infinity, std::nan("")};
  for (const double low : values) {
    for (const double high : values) {
      const std::vector<double> ticks = svg::axis_ticks(low, high, 5);
      EXPECT_LE(ticks.size(), std::size_t{svg::kMostTicks}) << low << " " << high;
      EXPECT_TRUE(std::adjacent_find(ticks.begin(), ticks.end(), std::greater_equal<>()) ==
                  ticks.end())
          << low << " " << high;
    }
  }
}

}  // namespace
}  // namespace sluice
