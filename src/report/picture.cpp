#include "report/picture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/format.h"
#include "base/text.h"
#include "report/picture_page.h"
#include "report/program_output.h"
#include "report/svg.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::Rgb;
using namespace svg;

constexpr double kLeft = 62, kRight = 92, kTop = 58;  // margins, in pixels
constexpr double kUsualCell = 20, kLeastWidth = 640, kMostWidth = 2400;
constexpr std::size_t kMostCells = 6000;  // with more actions, lanes are drawn as pixel columns
constexpr double kTextureWidth = 1600;
constexpr double kTextureColumns = 48'000;  // pixel columns of all lanes together
constexpr double kDigit = 6.2, kLetter = 6.2;
constexpr Rgb kOther = {138, 146, 155};  // actions without a colour
constexpr double kPalest = 0.62;         // share of white in the colour of a rank's last stage
constexpr std::size_t kMostReasons = 12;
constexpr int kMostShades = 64;  // per colour

Rgb paler(const Rgb& color, double white) {
  Rgb result = color;
  for (int& part : result) part += static_cast<int>(std::lround((255 - part) * white));
  return result;
}

Rgb color_of_kind(ActionKind kind) {
  for (const auto& [each, color] : detail::picture_colors())
    if (each == kind) return color;
  return kOther;
}

struct Words {
  ActionKind kind;
  const char* letter;
  const char* meaning;
};
constexpr Words kWords[] = {{ActionKind::kForward, "F", "forward"},
                            {ActionKind::kBackward, "B", "backward"},
                            {ActionKind::kBackwardInput, "I", "gradient of the input"},
                            {ActionKind::kBackwardWeight, "W", "gradient of the weights"}};

std::string letter_of(ActionKind kind) {
  for (const Words& words : kWords)
    if (words.kind == kind) return words.letter;
  return "O";
}

std::string meaning_of_action(const Action& action) {
  for (const Words& words : kWords) {
    if (words.kind == action.kind)
      return formatted("{}, stage {}, microbatch {}", words.meaning, action.stage,
                       action.microbatch);
  }
  return to_text(action);
}

bool has_dark_text(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackwardInput;
}

// Times read from a file may be any number.
double idle_share(const RankTimeline& rank, const Simulation& simulation) {
  const double busy = simulation.makespan > 0 ? rank.busy / simulation.makespan : 1;
  return std::isnan(busy) ? 0 : 1 - std::clamp(busy, 0.0, 2.0);
}

std::string live_text(const Picture& picture, double live) {
  const std::int64_t whole = std::llround(std::clamp(live, 0.0, 9e18));
  return picture.live_in_bytes ? human_bytes(whole) : std::to_string(whole);
}

std::string reason_text(const Violation& violation) {
  const std::string where =
      violation.rank < 0 ? "" : "rank " + std::to_string(violation.rank) + ": ";
  return where + (violation.action.empty() ? "" : violation.action + ": ") + violation.reason;
}

Json index_pair(std::size_t rank, int index) {
  Json pair = Json::array();
  pair.push_back(rank);
  pair.push_back(index);
  return pair;
}

struct Lanes {
  double width = 0, height = 0, curve = 0, pitch = 0;  // in pixels; 0: no curve
  double makespan = 0;
  bool texture = false;
  int label_every = 1;

  // The makespan may be too small or too large to divide by.
  double at(double time) const {
    if (!(makespan > 0)) return 0;
    const double scale = width / makespan;
    return std::isfinite(scale) && scale > 0 ? time * scale : time / makespan * width;
  }
};

double quarter_of_durations(const Simulation& simulation) {
  std::vector<double> durations;
  for (const RankTimeline& rank : simulation.ranks) {
    for (const TimedAction& timed : rank.actions)
      if (timed.end > timed.start) durations.push_back(timed.end - timed.start);
  }
  if (durations.empty()) return 1;
  const auto quarter = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 4);
  std::nth_element(durations.begin(), quarter, durations.end());
  return *quarter;
}

double axis_end(const Picture& picture) {
  return std::max(picture.axis_end, picture.simulation.makespan);
}

Lanes lanes_of(const Picture& picture) {
  const Simulation& simulation = picture.simulation;
  const bool refused = !picture.violations.empty();
  std::size_t count = 0;
  for (const RankTimeline& rank : simulation.ranks) count += rank.actions.size();
  const auto ranks = static_cast<double>(simulation.ranks.size());
  Lanes lanes;
  lanes.texture = count > kMostCells;
  const double usual = kUsualCell * simulation.makespan / quarter_of_durations(simulation);
  lanes.width = lanes.texture ? kTextureWidth : std::clamp(usual, kLeastWidth, kMostWidth);
  lanes.height = lanes.texture ? std::clamp(900 / ranks, 4.0, 20.0) : ranks > 32 ? 14 : 24;
  lanes.curve = lanes.texture || refused ? 0 : 16;
  lanes.pitch = lanes.height + (lanes.texture ? 1 : lanes.curve + 9);
  if (picture.lane_width > 0 && !lanes.texture) lanes.width = picture.lane_width;
  lanes.makespan = axis_end(picture);
  while (lanes.label_every * lanes.pitch < 12) lanes.label_every *= 2;
  return lanes;
}

std::map<int, int> places_of_stages(const RankTimeline& rank) {
  std::set<int> stages;
  for (const TimedAction& timed : rank.actions)
    if (timed.action.stage >= 0) stages.insert(timed.action.stage);
  std::map<int, int> places;
  for (const int stage : stages) places.emplace(stage, static_cast<int>(places.size()));
  return places;
}

int place_of(const std::map<int, int>& places, const Action& action) {
  const auto found = places.find(action.stage);
  return found == places.end() ? 0 : found->second;
}

class Drawing {
 public:
  explicit Drawing(const Picture& picture)
      : picture_(picture), simulation_(picture.simulation), lanes_(lanes_of(picture)) {
    for (const RankTimeline& rank : simulation_.ranks)
      most_stages_ = std::max(most_stages_, static_cast<int>(places_of_stages(rank).size()));
    num_shades_ = std::min(most_stages_, kMostShades);
  }

  double width() const { return kLeft + lanes_.width + kRight; }
  double height() const { return reasons_top() + 15 * static_cast<double>(num_reasons()) + 12; }

  std::string svg() {
    std::string body = heading();
    double largest = 0;
    for (const std::vector<LivePoint>& curve : picture_.live)
      for (const LivePoint& point : curve) largest = std::max(largest, point.live);
    for (std::size_t rank = 0; rank < simulation_.ranks.size(); ++rank) {
      body += lane(rank);
      if (lanes_.curve > 0 && largest > 0) body += curve(rank, picture_.live[rank], largest);
    }
    body += axis() + critical_path() + violations();
    const std::string w = px(width()), h = px(height());
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + w + " " + h +
           "\" width=\"" + w + "\" height=\"" + h +
           "\" role=\"img\" class=\"sluice\" font-family=\"system-ui,-apple-system,Segoe "
           "UI,Roboto,sans-serif\">\n<title>" +
           escaped(picture_.title) + "</title><desc>" + escaped(picture_.subtitle) + "</desc>\n" +
           style() + "<rect class=\"bg\" width=\"" + w + "\" height=\"" + h + "\"/>\n" + body +
           "</svg>\n";
  }

 private:
  double lane_top(std::size_t rank) const {
    return kTop + lanes_.pitch * static_cast<double>(rank);
  }
  double axis_top() const { return lane_top(simulation_.ranks.size()) + 2; }
  double reasons_top() const { return axis_top() + 28; }
  std::size_t num_reasons() const { return std::min(kMostReasons, picture_.violations.size()); }
  double x_of(double time) const { return kLeft + lanes_.at(time); }

  double white(int shade) const {
    return num_shades_ < 2 ? 0 : kPalest * shade / (num_shades_ - 1);
  }
  int shade_of(const std::map<int, int>& places, const Action& action) const {
    const std::int64_t place = place_of(places, action);
    if (most_stages_ <= kMostShades) return static_cast<int>(place);
    return static_cast<int>(place * (num_shades_ - 1) / (most_stages_ - 1));
  }
  std::string class_of(const std::map<int, int>& places, const Action& action) const {
    return letter_of(action.kind) + std::to_string(shade_of(places, action));
  }

  std::string style() const {
    std::string rules =
        ".sluice text{fill:#1d2733}.sluice .dim{fill:#5c6772}.sluice .bg{fill:#fff}"
        ".sluice .idle{fill:#eef1f4}.sluice .axis{stroke:#c3c9d0}"
        ".sluice .live{fill:#7b61a8;fill-opacity:.25;stroke:#7b61a8}"
        ".sluice .path{fill:none;stroke:#111;stroke-width:1.6}"
        ".sluice .pair{fill:none;stroke:#1d2733;stroke-width:1}"
        ".sluice .bad{fill:none;stroke:#c00020;stroke-width:2.4}.sluice text.bad{fill:#c00020;"
        "stroke:none}";
    for (const auto& [kind, shade] : used_) {
      const Rgb color = color_of_kind(kind);
      const std::string name = letter_of(kind) + std::to_string(shade);
      const std::string fill = hex(paler(color, white(shade)));
      rules += ".sluice ." + name + "{" + (lanes_.texture ? "stroke:" + fill : "fill:" + fill) +
               (shade > 0 && !lanes_.texture ? ";stroke:" + hex(color) : "") + "}";
      const bool light = white(shade) > 0.3 || has_dark_text(kind);
      rules += ".sluice text.t" + name + "{fill:" + (light ? "#10161c" : "#fff") + "}";
    }
    return "<style>" + rules +
           "@media(prefers-color-scheme:dark){.sluice text{fill:#e6e9ec}.sluice .dim{fill:#9aa5b1}"
           ".sluice .bg{fill:#14181d}.sluice .idle{fill:#22282f}.sluice .axis{stroke:#3a424b}"
           ".sluice .live{fill:#b39ddb;stroke:#b39ddb}.sluice .path{stroke:#fff}"
           ".sluice .pair{stroke:#e6e9ec}.sluice .bad{stroke:#ff6b7d}.sluice text.bad{fill:#ff6b7d}"
           "}</style>\n";
  }

  std::string heading() {
    for (const RankTimeline& rank : simulation_.ranks) {
      const std::map<int, int> places = places_of_stages(rank);
      for (const TimedAction& timed : rank.actions)
        used_.emplace(timed.action.kind, shade_of(places, timed.action));
    }
    std::string text = text_at(kLeft, 20, "font-size=\"15\" font-weight=\"600\"", picture_.title);
    text += text_at(kLeft, 36, "font-size=\"11.5\" class=\"dim\"", picture_.subtitle);
    double x = kLeft;
    const auto item = [&](const std::string& sample, const std::string& words) {
      text += sample + text_at(x + 15, 51, "font-size=\"11\" class=\"dim\"", words);
      x += 27 + kLetter * static_cast<double>(words.size());
    };
    const auto box = [&](const std::string& name) {
      return lanes_.texture
                 ? "<path class=\"" + name + "\" stroke-width=\"10\" d=\"M" + px(x) + " 47h10\"/>"
                 : "<rect class=\"" + name + "\" x=\"" + px(x) +
                       "\" y=\"42\" width=\"10\" height=\"10\"/>";
    };
    for (const Words& words : kWords)
      if (used_.contains({words.kind, 0}))
        item(box(std::string(words.letter) + "0"), words.meaning);
    if (used_.contains({ActionKind::kForward, num_shades_ - 1}) && num_shades_ > 1)
      item(box("F" + std::to_string(num_shades_ - 1)), "paler: later stages of the rank");
    if (lanes_.curve > 0)
      item("<rect class=\"live\" x=\"" + px(x) + "\" y=\"42\" width=\"10\" height=\"10\"/>",
           "live activations");
    return text;
  }

  std::string lane(std::size_t rank) {
    const double top = lane_top(rank);
    const RankTimeline& of = simulation_.ranks[rank];
    std::string text;
    if (rank % static_cast<std::size_t>(lanes_.label_every) == 0) {
      const double middle = top + lanes_.height / 2 + 4;
      text += text_at(kLeft - 8, middle, "text-anchor=\"end\" font-size=\"11\" class=\"dim\"",
                      "rank " + std::to_string(rank));
      if (picture_.violations.empty()) {
        const double idle = idle_share(of, simulation_);
        text += text_at(kLeft + lanes_.width + 6, middle, "font-size=\"10.5\" class=\"dim\"",
                        "idle " + fixed(100 * idle, 1) + "%");
      }
    }
    text += "<rect class=\"idle\" x=\"" + px(kLeft) + "\" y=\"" + px(top) + "\" width=\"" +
            px(lanes_.width) + "\" height=\"" + px(lanes_.height) + "\"/>\n";
    return text + (lanes_.texture ? texture(of, top) : cells(of, rank, top));
  }

  std::string box_path(const TimedAction& timed, double top, double inset) const {
    const double x = x_of(timed.start) + inset;
    const double width = std::max(0.4, x_of(timed.end) - x - inset);
    const std::string w = px(width);
    return "M" + px(x) + " " + px(top + inset) + "h" + w + "v" + px(lanes_.height - 2 * inset) +
           "h-" + w + "z";
  }

  // One path per colour, and microbatch numbers where they fit.
  std::string cells(const RankTimeline& of, std::size_t rank, double top) const {
    const std::map<int, int> places = places_of_stages(of);
    std::map<std::string, std::string> paths;
    std::string numbers, rims;
    for (const TimedAction& timed : of.actions) {
      const std::string name = class_of(places, timed.action);
      paths[name] += box_path(timed, top, 0.5);
      const std::string number =
          timed.action.microbatch >= 0 ? std::to_string(timed.action.microbatch) : "";
      const double room = x_of(timed.end) - x_of(timed.start);
      if (number.empty() || kDigit * static_cast<double>(number.size()) + 3 > room) continue;
      numbers.append("<text class=\"t").append(name).append("\" x=\"");
      numbers.append(px((x_of(timed.start) + x_of(timed.end)) / 2)).append("\" y=\"");
      numbers.append(px(top + lanes_.height / 2 + 3.7)).append("\">");
      numbers.append(number).append("</text>");
    }
    if (rank < picture_.pairs.size()) {
      for (const int first : picture_.pairs[rank]) {
        const TimedAction both = {.action = {},
                                  .start = of.actions[static_cast<std::size_t>(first)].start,
                                  .end = of.actions[static_cast<std::size_t>(first) + 1].end};
        rims += box_path(both, top, 0);
      }
    }
    std::string text;
    for (const auto& [name, path] : paths)
      text.append("<path class=\"").append(name).append("\" d=\"").append(path).append("\"/>\n");
    if (!rims.empty()) text += "<path class=\"pair\" d=\"" + rims + "\"/>\n";
    if (!numbers.empty())
      text += "<g font-size=\"10.5\" text-anchor=\"middle\">" + numbers + "</g>\n";
    return text;
  }

  // Actions read from a file may overlap, so cut them.
  static std::vector<TimedAction> in_turn(const RankTimeline& of) {
    std::vector<TimedAction> actions;
    double free = 0;
    for (TimedAction timed : of.actions) {
      timed.start = std::max(free, timed.start);
      if (!(timed.end > timed.start)) continue;
      free = timed.end;
      actions.push_back(timed);
    }
    return actions;
  }

  // Draws one colour per pixel column: that with the most time not drawn yet.
  std::string texture(const RankTimeline& of, double top) const {
    const double lanes = static_cast<double>(simulation_.ranks.size());
    const double column = std::ceil(std::max(1.0, lanes * lanes_.width / kTextureColumns));
    const auto columns = static_cast<int>(lanes_.width / column);
    const std::map<int, int> places = places_of_stages(of);
    const std::vector<TimedAction> actions = in_turn(of);
    std::map<std::string, double> owed;  // columns not drawn yet, by colour; "" is idle time
    struct Path {
      std::string text;
      int at = 0;
    };
    std::map<std::string, Path> paths;
    std::size_t next = 0;
    std::string run;
    int run_start = 0;
    const auto end_run = [&](int end) {
      if (run.empty()) return;
      Path& path = paths[run];
      const auto text = [&](int count) { return px(column * count); };
      path.text += "m" + text(run_start - path.at) + " 0h" + text(end - run_start);
      path.at = end;
    };
    for (int i = 0; i < columns; ++i) {
      const double begin = simulation_.makespan * i / columns;
      const double end = simulation_.makespan * (i + 1) / columns;
      double idle = 1;
      while (next < actions.size() && actions[next].end <= begin) ++next;
      for (std::size_t each = next; each < actions.size() && actions[each].start < end; ++each) {
        const TimedAction& timed = actions[each];
        const double share =
            (std::min(end, timed.end) - std::max(begin, timed.start)) / (end - begin);
        if (!std::isfinite(share)) continue;
        owed[class_of(places, timed.action)] += share;
        idle -= share;
      }
      owed[""] += std::max(0.0, idle);
      const auto most =
          std::max_element(owed.begin(), owed.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      most->second -= 1;
      if (most->first == run && i > 0) continue;
      end_run(i);
      run = most->first;
      run_start = i;
    }
    end_run(columns);
    std::string text = "<g fill=\"none\" stroke-width=\"" + px(lanes_.height) + "\">\n";
    const std::string start = "M" + px(kLeft) + " " + px(top + lanes_.height / 2);
    for (const auto& [name, path] : paths)
      text.append("<path class=\"")
          .append(name)
          .append("\" d=\"")
          .append(start)
          .append(path.text)
          .append("\"/>\n");
    return text + "</g>\n";
  }

  std::string curve(std::size_t rank, const std::vector<LivePoint>& points, double largest) const {
    const double bottom = lane_top(rank) + lanes_.height + 3 + lanes_.curve;
    double peak = 0;
    std::string path = "M" + px(kLeft) + " " + px(bottom);
    for (const LivePoint& point : points) {
      peak = std::max(peak, point.live);
      path += "H" + px(x_of(point.time)) + "V" + px(bottom - lanes_.curve * point.live / largest);
    }
    path += "H" + px(kLeft + lanes_.width) + "V" + px(bottom) + "z";
    return "<path class=\"live\" d=\"" + path + "\"/>\n" +
           text_at(kLeft + lanes_.width + 6, bottom - lanes_.curve / 2 + 4,
                   "font-size=\"10.5\" class=\"dim\"", "peak " + live_text(picture_, peak));
  }

  std::string axis() const {
    const double y = axis_top();
    std::string text = "<path class=\"axis\" fill=\"none\" d=\"M" + px(kLeft) + " " + px(y) + "h" +
                       px(lanes_.width) + "\"/>\n";
    const double wanted = std::clamp(lanes_.width / 110, 2.0, 12.0);
    for (const double time : axis_ticks(0, axis_end(picture_), wanted)) {
      const double x = x_of(time);
      text += "<path class=\"axis\" d=\"M" + px(x) + " " + px(y) + "v4\"/>";
      text += text_at(
          x, y + 15, "text-anchor=\"middle\" font-size=\"10.5\" class=\"dim\"",
          picture_.basis.unit == "%" ? shortest(time) + " %" : time_text(picture_.basis, time));
    }
    return text;
  }

  std::string critical_path() const {
    if (!picture_.critical_path) return {};
    std::string path;
    for (const Simulation::Step& step : simulation_.critical_path) {
      const auto rank = static_cast<std::size_t>(step.rank);
      path += box_path(simulation_.ranks[rank].actions[static_cast<std::size_t>(step.index)],
                       lane_top(rank), 1);
    }
    return "<path class=\"path\" d=\"" + path + "\"/>\n";
  }

  std::string violations() const {
    std::string marks, texts;
    double y = reasons_top() + 10;
    for (std::size_t i = 0; i < picture_.violations.size(); ++i) {
      const Violation& of = picture_.violations[i];
      if (of.rank >= 0 && of.index >= 0) {
        const auto rank = static_cast<std::size_t>(of.rank);
        marks += box_path(simulation_.ranks[rank].actions[static_cast<std::size_t>(of.index)],
                          lane_top(rank), 0.5);
      }
      if (i >= num_reasons()) continue;
      texts += text_at(kLeft, y, "font-size=\"11\" class=\"bad\"", reason_text(of));
      y += 15;
    }
    return (marks.empty() ? "" : "<path class=\"bad\" d=\"" + marks + "\"/>\n") + texts;
  }

  const Picture& picture_;
  const Simulation& simulation_;
  const Lanes lanes_;
  int most_stages_ = 1, num_shades_ = 1;
  std::set<std::pair<ActionKind, int>> used_;
};

std::string sizes_text(const Program& program) {
  const int all = std::max(program.mesh.num_ranks(), program.num_ranks());
  const std::string ranks =
      counted(all, "rank") +
      (all == program.num_ranks() ? "" : formatted(", {} to a lane", all / program.num_ranks()));
  return formatted("{}, {}, {}", ranks, counted(program.num_stages(), "stage"),
                   counted(program.num_microbatches, "microbatch"));
}

}  // namespace

namespace detail {

// Colours of Okabe and Ito (2008, "Color Universal Design"), with lightness moved apart.
const std::vector<std::pair<ActionKind, Rgb>>& picture_colors() {
  static const std::vector<std::pair<ActionKind, Rgb>> colors = {
      {ActionKind::kForward, {0x56, 0xb4, 0xe9}},
      {ActionKind::kBackwardInput, {0xf7, 0xd2, 0x7a}},
      {ActionKind::kBackwardWeight, {0x00, 0x79, 0x5a}},
      {ActionKind::kBackward, {0xd5, 0x5e, 0x00}}};
  return colors;
}

}  // namespace detail

std::vector<std::vector<int>> pairs_of(const Program& program, const Simulation& simulation) {
  std::vector<std::vector<int>> pairs(simulation.ranks.size());
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    std::set<std::pair<int, int>> firsts;
    for (const Action& action : program.ranks[rank])
      if (action.kind == ActionKind::kOverlap) firsts.emplace(action.stage, action.microbatch);
    const std::vector<TimedAction>& actions = simulation.ranks[rank].actions;
    for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
      const Action& action = actions[i].action;
      if (action.kind == ActionKind::kForward && firsts.contains({action.stage, action.microbatch}))
        pairs[rank].push_back(static_cast<int>(i));
    }
  }
  return pairs;
}

bool knows_bytes(const Costs& costs) {
  return !costs.per_stage.empty() && costs.per_stage.front().kept_bytes > 0;
}

std::vector<LivePoint> live_curve(const RankTimeline& rank, const Costs& costs) {
  const bool in_bytes = knows_bytes(costs);
  const auto kept = [&](const Action& action) -> const StageCosts& {
    return costs.per_stage[static_cast<std::size_t>(action.stage)];
  };
  std::vector<LivePoint> points;
  double live = 0;
  const auto change = [&](double time, double by) {
    live += by;
    points.push_back({time, live});
  };
  for (const TimedAction& timed : rank.actions) {
    const Action& action = timed.action;
    switch (action.kind) {
      case ActionKind::kForward:
        change(timed.start, in_bytes ? kept(action).kept_bytes : 1);
        break;
      case ActionKind::kBackward:
        change(timed.end, in_bytes ? -kept(action).kept_bytes : -1);
        break;
      case ActionKind::kBackwardInput:
        if (in_bytes)
          change(timed.end, kept(action).kept_after_input_bytes - kept(action).kept_bytes);
        break;
      case ActionKind::kBackwardWeight:
        change(timed.end, in_bytes ? -kept(action).kept_after_input_bytes : -1);
        break;
      default:
        break;
    }
  }
  return points;
}

Picture picture_of(const std::string& title, const Program& program, const Simulation& simulation,
                   const Costs& costs, const TimeBasis& basis) {
  const std::string step = basis.unit.empty() ? shortest(simulation.makespan) + " units of time"
                                              : time_text(basis, simulation.makespan);
  Picture picture = {.title = title,
                     .subtitle = formatted("{}, {}, {}% idle", sizes_text(program), step,
                                           fixed(100 * simulation.bubble_fraction, 1)),
                     .simulation = simulation,
                     .basis = basis,
                     .live_in_bytes = knows_bytes(costs),
                     .pairs = pairs_of(program, simulation)};
  for (const RankTimeline& rank : simulation.ranks) picture.live.push_back(live_curve(rank, costs));
  return picture;
}

Picture picture_of_refused(const std::string& title, const Program& program,
                           const VerifyReport& report) {
  Picture picture = {.title = title + ": refused",
                     .subtitle = sizes_text(program) + "; one slot an instruction, no times",
                     .violations = report.violations};
  for (const std::vector<Action>& row : program.ranks) {
    RankTimeline& rank = picture.simulation.ranks.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto start = static_cast<double>(i);
      rank.actions.push_back({row[i], start, start + 1});
    }
    picture.simulation.makespan =
        std::max(picture.simulation.makespan, static_cast<double>(row.size()));
  }
  return picture;
}

void stretch(Picture& picture, double makespan, const std::string& unit) {
  const double before = picture.simulation.makespan;
  const double by = before > 0 ? makespan / before : 1;
  for (RankTimeline& rank : picture.simulation.ranks) {
    rank.busy *= by;
    rank.finish *= by;
    for (TimedAction& timed : rank.actions) {
      timed.start *= by;
      timed.end *= by;
    }
  }
  for (std::vector<LivePoint>& curve : picture.live)
    for (LivePoint& point : curve) point.time *= by;
  picture.simulation.makespan *= by;
  picture.basis.unit = unit;
}

std::string picture_svg(const Picture& picture) { return Drawing(picture).svg(); }

namespace {

struct PageKind {
  std::string name;
  Rgb color;
  bool has_dark_text = false;
  bool in_legend = false;
};

// Times in the page are integers, in ten-millionths of the step.
Json page_data(const Picture& picture) {
  constexpr double kTicks = 1e7;
  const Simulation& simulation = picture.simulation;
  const double tick = simulation.makespan > 0 ? simulation.makespan / kTicks : 1;
  // The makespan may be so small that a ten-millionth of it is 0.
  const double end = simulation.makespan > 0 ? simulation.makespan : 1;
  const auto ticks = [&](double time) { return std::llround(time / end * kTicks); };
  const bool in_seconds = picture.basis.unit == "s";
  std::vector<PageKind> kinds;
  for (const Words& words : kWords)
    kinds.push_back({words.meaning, color_of_kind(words.kind), has_dark_text(words.kind)});
  std::map<std::string, std::size_t> others;
  Json ranks = Json::array(), pairs = Json::array();
  double most = 0;
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const RankTimeline& of = simulation.ranks[rank];
    Json actions = Json::array(), live = Json::array();
    for (const TimedAction& timed : of.actions) {
      std::size_t kind = 0;
      while (kind < std::size(kWords) && kWords[kind].kind != timed.action.kind) ++kind;
      const bool computes = kind < std::size(kWords);
      if (computes) {
        kinds[kind].in_legend = true;
      } else {
        const std::string text = to_text(timed.action);
        const auto [found, is_new] = others.emplace(text, kinds.size());
        kind = found->second;
        if (is_new) kinds.push_back({text, kOther, true});
      }
      actions.push_back(kind);
      actions.push_back(timed.action.stage);
      actions.push_back(computes ? timed.action.microbatch : -1);
      actions.push_back(ticks(timed.start));
      actions.push_back(ticks(timed.end));
    }
    double peak = 0;
    if (picture.violations.empty() && rank < picture.live.size()) {
      for (const LivePoint& point : picture.live[rank]) {
        peak = std::max(peak, point.live);
        live.push_back(ticks(point.time));
        live.push_back(point.live);
      }
    }
    most = std::max(most, peak);
    if (rank < picture.pairs.size())
      for (const int first : picture.pairs[rank]) pairs.push_back(index_pair(rank, first));
    ranks.push_back({{"actions", std::move(actions)},
                     {"live", std::move(live)},
                     {"idle", fixed(100 * idle_share(of, simulation), 1) + "%"},
                     {"peak", live_text(picture, peak)}});
  }
  Json kinds_json = Json::array();
  for (const PageKind& kind : kinds) {
    kinds_json.push_back({{"name", kind.name},
                          {"color", Json(std::vector<int>(kind.color.begin(), kind.color.end()))},
                          {"light", kind.has_dark_text},
                          {"legend", kind.in_legend}});
  }
  Json path = Json::array(), bad = Json::array(), reasons = Json::array();
  if (picture.critical_path)
    for (const Simulation::Step& step : simulation.critical_path)
      path.push_back(index_pair(static_cast<std::size_t>(step.rank), step.index));
  for (const Violation& violation : picture.violations) {
    if (violation.rank >= 0 && violation.index >= 0)
      bad.push_back(index_pair(static_cast<std::size_t>(violation.rank), violation.index));
    if (reasons.size() < kMostReasons) reasons.push_back(reason_text(violation));
  }
  return {{"tick", in_seconds ? 1000 * tick : tick},
          {"unit", in_seconds                   ? " ms"
                   : picture.basis.unit.empty() ? ""
                                                : " " + picture.basis.unit},
          {"end", ticks(simulation.makespan)},
          {"palest", kPalest},
          {"idle", picture.violations.empty()},
          {"most", most},
          {"kinds", std::move(kinds_json)},
          {"ranks", std::move(ranks)},
          {"pairs", std::move(pairs)},
          {"path", std::move(path)},
          {"bad", std::move(bad)},
          {"reasons", std::move(reasons)}};
}

}  // namespace

std::string picture_html(const Picture& picture) {
  std::string page(kPicturePage);
  const auto put = [&](std::string_view name, const std::string& value) {
    for (std::size_t at = page.find(name); at != std::string::npos;
         at = page.find(name, at + value.size()))
      page.replace(at, name.size(), value);
  };
  // A '<' in the data could end the script element, so escape it.
  put("@DATA@", replace_all(page_data(picture).dump(), "<", "\\u003c"));
  put("@TITLE@", escaped(replace_all(picture.title, "@", "&#64;")));
  put("@SUBTITLE@", escaped(picture.subtitle));
  return page;
}

std::string picture_trace(const Picture& picture) {
  const double microseconds = picture.basis.unit == "s" ? 1e6 : 1e3;
  Json events = Json::array();
  for (std::size_t rank = 0; rank < picture.simulation.ranks.size(); ++rank) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", rank},
                      {"args", {{"name", "rank " + std::to_string(rank)}}}});
    for (const TimedAction& timed : picture.simulation.ranks[rank].actions) {
      events.push_back({{"name", to_text(timed.action)},
                        {"cat", meaning_of_action(timed.action)},
                        {"ph", "X"},
                        {"pid", 0},
                        {"tid", rank},
                        {"ts", timed.start * microseconds},
                        {"dur", (timed.end - timed.start) * microseconds}});
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

Json timeline_json(const Program& program, const Simulation& simulation, const Costs& costs) {
  Json rows = Json::array(), timeline = Json::array(), live = Json::array();
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    Json& row = rows.push_back(Json::array());
    for (const Action& action : program.ranks[rank]) row.push_back(to_text(action));
    Json& actions = timeline.push_back(Json::array());
    for (const TimedAction& timed : simulation.ranks[rank].actions)
      actions.push_back(
          {{"action", to_text(timed.action)}, {"start", timed.start}, {"end", timed.end}});
    Json& points = live.push_back(Json::array());
    for (const LivePoint& point : live_curve(simulation.ranks[rank], costs))
      points.push_back({{"time", point.time}, {"live", point.live}});
  }
  return {{"rows", std::move(rows)}, {"timeline", std::move(timeline)}, {"live", std::move(live)}};
}

void require_picture_ending(const std::string& file, const std::string& option) {
  for (const char* ending : {".svg", ".html", ".json"})
    if (file.ends_with(ending)) return;
  throw Error(ErrorKind::kUsage, {.what = "'" + file + "' is not a kind of picture",
                                  .where = option,
                                  .remedy = "name a file that ends in .svg, .html or .json"});
}

std::string picture_as(const std::string& file, const Picture& picture, const std::string& option) {
  require_picture_ending(file, option);
  if (file.ends_with(".svg")) return picture_svg(picture);
  return file.ends_with(".html") ? picture_html(picture) : picture_trace(picture);
}

}  // namespace sluice
