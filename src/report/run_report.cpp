#include "report/run_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/line_reader.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "report/metrics_file.h"
#include "report/svg.h"
#include "sluice/error.h"
#include "sluice/parts/action.h"

namespace sluice {
namespace {

using svg::escaped;
using svg::px;

constexpr std::size_t kMostFacts = std::size_t{256} << 20;
constexpr std::size_t kMostRanks = std::size_t{1} << 16;  // as for schedules
constexpr int kFormat = 1;

// ---- reading run.json, whose keys may be missing ----

double number_in(const Json& object, std::string_view key) {
  const Json& value = object.at(key);
  return value.is_number() ? value.number() : 0;
}

std::int64_t integer_in(const Json& object, std::string_view key) {
  const double value = number_in(object, key);
  return std::abs(value) < 9e18 ? std::llround(value) : 0;
}

std::string text_in(const Json& object, std::string_view key) {
  const Json& value = object.at(key);
  return value.is_string() ? value.text() : "";
}

const Json::List& list_of(const Json& value) {
  static const Json::List none;
  return value.is_array() ? value.list() : none;
}

const Json::Members& members_of(const Json& value) {
  static const Json::Members none;
  return value.is_object() ? value.members() : none;
}

std::string setting_text(const Json& value) {
  return value.is_string() ? value.text() : value.is_null() ? "" : value.dump();
}

Error damaged(const std::string& file, const std::string& what) {
  return Error(
      ErrorKind::kInput,
      {.what = what, .where = file, .remedy = "name the metrics.folder of a run of this version"});
}

// Prints three significant digits.
std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  const double size = std::abs(value);
  return size >= 1000 && size < 1e12 ? with_commas(std::llround(value)) : text;
}

std::string ms_text(double seconds) { return short_number(1000 * seconds) + " ms"; }

std::string paragraph(const std::string& text) { return "<p>" + escaped(text) + "</p>\n"; }

std::string headline(const std::string& text) { return "<h2>" + escaped(text) + "</h2>\n"; }

// An HTML table. The first `words` columns are left-aligned.
class Table {
 public:
  Table(const std::vector<std::string>& titles, std::size_t words) : words_(words) {
    text_ = "<table><tr>";
    for (std::size_t i = 0; i < titles.size(); ++i)
      text_ += tag("th", i) + escaped(titles[i]) + "</th>";
    text_ += "</tr>\n";
  }
  void add(const std::vector<std::string>& cells) {
    text_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) text_ += tag("td", i) + cells[i] + "</td>";
    text_ += "</tr>\n";
  }
  std::string html() const { return "<div class=\"wide\">" + text_ + "</table></div>\n"; }

 private:
  std::string tag(const char* name, std::size_t column) const {
    return formatted("<{}{}>", name, column < words_ ? " class=\"l\"" : "");
  }
  std::size_t words_;
  std::string text_;
};

struct Series {
  std::string name, style;
  const Curve* curve;
};

struct Marks {
  std::vector<std::int64_t> restarts, saves;
};

class Chart {
 public:
  enum Axis {
    kAroundValues,
    kFromZero
    // kFromZero is for rates, whose noise would look like trouble on a narrow axis.
  };

  Chart(std::string title, std::vector<Series> series, const Marks& marks, Axis axis)
      : title_(std::move(title)), series_(std::move(series)), marks_(marks) {
    std::erase_if(series_, [](const Series& each) { return each.curve->empty(); });
    for (const Series& each : series_) {
      for (const Curve::Part& part : each.curve->parts()) {
        first_ = std::min(first_, part.first);
        last_ = std::max(last_, part.last);
        least_ = std::min(least_, part.least);
        most_ = std::max(most_, part.most);
      }
    }
    logarithmic_ = axis == kAroundValues && least_ > 0 && most_ / least_ > kWide;
    if (logarithmic_) {
      low_ = std::log10(least_), high_ = std::log10(most_);
    } else {
      const bool from_zero = axis == kFromZero || least_ < 0.3 * most_;
      low_ = least_ >= 0 && from_zero ? 0 : least_;
      high_ = most_;
    }
    // Draw a flat line if values differ only by rounding.
    const double largest = std::max(std::abs(low_), std::abs(high_));
    const bool is_flat = !(high_ - low_ > kFlat * largest);
    const double room = is_flat ? std::max(1e-12, largest) : 0.06 * (high_ - low_);
    if (low_ != 0 || logarithmic_) low_ -= room;
    high_ += room;
  }

  std::string html() const {
    if (series_.empty()) return {};
    std::string text =
        formatted("<svg viewBox=\"0 0 {} {}\" class=\"chart\" role=\"img\">", kWidth, kHeight) +
        "<title>" + escaped(title_) + "</title>\n" + heading() + axes() + marks();
    for (const Series& each : series_) text += line(each);
    return text + "</svg>\n";
  }

 private:
  static constexpr int kWidth = 440, kHeight = 200;
  static constexpr double kLeft = 56, kRight = 12, kTop = 30, kBottom = 28, kWide = 100,
                          kFlat = 1e-9;
  static constexpr std::size_t kMostDots = 200;

  double x_of(double step) const {
    const double all = std::max<double>(1, static_cast<double>(last_ - first_));
    return kLeft + (step - static_cast<double>(first_)) / all * (kWidth - kLeft - kRight);
  }
  double y_of(double value) const {
    const double at = logarithmic_ ? std::log10(std::max(value, least_)) : value;
    return kHeight - kBottom - (at - low_) / (high_ - low_) * (kHeight - kTop - kBottom);
  }

  std::string heading() const {
    std::string text = svg::text_at(kLeft, 16, "class=\"h\"", title_);
    if (series_.size() < 2 && series_.front().name.empty()) return text;
    double x = kWidth - kRight;
    for (auto each = series_.rbegin(); each != series_.rend(); ++each) {
      text += svg::text_at(x, 16, "class=\"e\"", each->name);
      x -= 6.2 * static_cast<double>(each->name.size()) + 16;
      text += "<path class=\"" + each->style + "\" d=\"M" + px(x) + " 12h11\"/>\n";
      x -= 10;
    }
    return text;
  }

  std::vector<double> ticks() const {
    if (logarithmic_) {
      std::vector<double> values;
      const int least = static_cast<int>(std::ceil(low_)), most = static_cast<int>(high_);
      const int every = std::max(1, (most - least) / 5);
      for (int power = least; power <= most; power += every) values.push_back(std::pow(10, power));
      if (values.size() >= 2) return values;
      return {least_, most_};
    }
    return svg::axis_ticks(low_, high_, 5);
  }

  std::string axes() const {
    std::string text;
    for (const double value : ticks()) {
      text += "<path class=\"g\" d=\"M" + px(kLeft) + " " + px(y_of(value)) + "H" +
              px(kWidth - kRight) + "\"/>";
      text += svg::text_at(kLeft - 6, y_of(value) + 3.5, "class=\"e\"", short_number(value));
    }
    std::vector<std::int64_t> steps;
    for (int quarter = 0; quarter <= 4; ++quarter)
      steps.push_back(first_ + (last_ - first_) * quarter / 4);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    text += svg::text_at(kLeft - 6, kHeight - 9, "class=\"e\"", "step");
    for (const std::int64_t step : steps) {
      const char* const anchor = step == last_ && steps.size() > 1 ? "class=\"e\"" : "class=\"m\"";
      const double shift =
          step == first_ && steps.size() > 1 ? 8 : 0;  // leave room for the word "step"
      text += svg::text_at(x_of(static_cast<double>(step)) + shift, kHeight - 9, anchor,
                           with_commas(step));
    }
    return text;
  }

  std::string mark(std::int64_t step, const std::string& what, const std::string& path,
                   const char* style = "") const {
    if (step < first_ || step > last_) return {};
    return "<g class=\"mark\"><title>" + escaped(what) + "</title><path" + style + " d=\"M" +
           px(x_of(static_cast<double>(step))) + " " + path + "\"/></g>\n";
  }
  std::string marks() const {
    std::string text;
    for (const std::int64_t step : marks_.restarts)
      text += mark(step, formatted("started again with step {}", step),
                   px(kTop) + "V" + px(kHeight - kBottom), " class=\"dash\"");
    for (const std::int64_t step : marks_.saves)
      text += mark(step, formatted("saved after step {}", step), px(kHeight - kBottom) + "v-7");
    return text;
  }

  std::string line(const Series& series) const {
    std::string path, dots;
    const std::vector<Curve::Part>& parts = series.curve->parts();
    const auto to = [&](double step, double value) {
      path += (path.empty() ? "M" : "L") + px(x_of(step)) + " " + px(y_of(value));
    };
    for (const Curve::Part& part : parts) {
      const auto first = static_cast<double>(part.first), last = static_cast<double>(part.last);
      to(first, part.begin);
      if (part.first == part.last) continue;
      to((first + last) / 2, part.least);
      to((first + last) / 2, part.most);
      to(last, part.end);
    }
    if (parts.size() <= kMostDots) {
      for (const Curve::Part& part : parts)
        dots += "<circle cx=\"" + px(x_of(static_cast<double>(part.last))) + "\" cy=\"" +
                px(y_of(part.end)) + "\" r=\"" + (parts.size() == 1 ? "3" : "5") + "\"><title>" +
                formatted("step {}: {}", part.last, short_number(part.end)) + "</title></circle>";
    }
    const char* const shown = parts.size() == 1 ? "dot " : "dots ";
    return "<path class=\"" + series.style + "\" d=\"" + path + "\"/><g class=\"" + shown +
           series.style + "\">" + dots + "</g>\n";
  }

  std::string title_;
  std::vector<Series> series_;
  const Marks& marks_;
  std::int64_t first_ = std::numeric_limits<std::int64_t>::max(), last_ = 0;
  double least_ = std::numeric_limits<double>::max(), most_ = std::numeric_limits<double>::lowest();
  bool logarithmic_ = false;
  double low_ = 0, high_ = 1;
};

// Gives all pictures the same time axis and lane width. If some times are not in seconds, every
// step becomes 100 percent.
void share_scale(const std::vector<Picture*>& pictures) {
  constexpr double kLaneWidth = 766;  // fits the page of 920 pixels
  const bool in_seconds = std::all_of(pictures.begin(), pictures.end(), [](const Picture* picture) {
    return picture->basis.unit == "s";
  });
  double longest = 0;
  for (Picture* picture : pictures) {
    if (!in_seconds && pictures.size() > 1) stretch(*picture, 100, "%");
    longest = std::max(longest, picture->simulation.makespan);
  }
  for (Picture* picture : pictures) {
    picture->axis_end = longest;
    picture->lane_width = std::max(kLaneWidth, picture->lane_width);
  }
}

constexpr const char* kStyle =
    R"(:root{--ink:#1d2733;--dim:#5d6873;--page:#fff;--line:#e1e5e9;--box:#f5f7f9;--a:#0072b2;--o:#d55e00;--v:#00795a;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--dim:#9aa5b1;--page:#14181d;--line:#2b323a;--box:#1b2128;--a:#56b4e9;--o:#f0a05a;--v:#5fc9a5;--bad:#ff8a80}}
body{font:14px/1.5 system-ui,-apple-system,Segoe UI,Roboto,sans-serif;color:var(--ink);background:var(--page);max-width:960px;margin:32px auto;padding:0 20px}
h1{font-size:23px;margin:0}h2{font-size:16px;margin:34px 0 8px}p{color:var(--dim);margin:2px 0 12px}code,pre{font:12px/1.5 ui-monospace,Consolas,monospace}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px;margin:18px 0}.tile{border:1px solid var(--line);border-radius:8px;padding:10px 12px}
.tile b{display:block;font-size:19px;font-weight:600}.tile span{color:var(--dim);font-size:12px;display:block}.tile .o{color:var(--o)}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(390px,100%),1fr));gap:14px}svg{width:100%;height:auto}.wide{overflow-x:auto}.wide svg{width:auto;max-width:none}.wide .bars{min-width:640px;width:100%}.wide table{min-width:max-content}.t{white-space:nowrap}
.chart text,.bars text{fill:var(--dim);font-size:11px}.chart .h{fill:var(--ink);font-size:13px;font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}
.chart path{fill:none;stroke-width:1.6}.chart .g{stroke:var(--line);stroke-width:1}path.a{stroke:var(--a)}path.o{stroke:var(--o)}path.v{stroke:var(--v);stroke-dasharray:5 3}path.w{stroke:var(--o);stroke-dasharray:5 3}
.chart .dots circle{fill:transparent}.chart .dot.a circle{fill:var(--a)}.chart .dot.o circle,.chart .dot.w circle{fill:var(--o)}.chart .dot.v circle{fill:var(--v)}.chart .mark path{stroke:var(--dim);stroke-width:1.4}.chart .mark .dash{stroke-dasharray:2 3}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}td,th{padding:4px 10px;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}th{color:var(--dim);font-weight:500}.l{text-align:left}
.note{border-left:3px solid var(--dim);background:var(--box);padding:8px 12px;margin:8px 0;white-space:pre-wrap;overflow-wrap:anywhere}.bad{border-color:var(--bad)}
pre{background:var(--box);border-radius:8px;padding:10px 12px;white-space:pre-wrap;overflow-wrap:anywhere;margin:6px 0}summary{cursor:pointer;color:var(--dim);margin:8px 0}
@media print{body{max-width:none;margin:0}details>*{display:block}})";

struct Share {
  const char* name;
  const char* color;
  double RankSeconds::*seconds;
};
constexpr Share kShares[] = {{"forward and backward", "#56b4e9", &RankSeconds::compute},
                             {"waiting for messages", "#aab4be", &RankSeconds::wait_receive},
                             {"handing over", "#6b7682", &RankSeconds::wait_send},
                             {"sums, norms, end of step", "#cc79a7", &RankSeconds::reduction},
                             {"update", "#00795a", &RankSeconds::optimizer},
                             {"batch and other", "#f7d27a", &RankSeconds::other}};

class Page {
 public:
  Page(const RunRecord& run, const RunRecord* other) : run_(run), other_(other) {
    marks_.restarts = restarts(run);
    for (const Json& step : list_of(run.facts.at("saves")))
      if (step.is_number()) marks_.saves.push_back(step.integer());
  }

  std::string html() const {
    const std::string body = heading() + tiles() + notices() + curves() + steps() + time_by_rank() +
                             memory() + split() + continuations() + settings() + environment();
    return "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
           "content=\"width=device-width\">\n<title>" +
           escaped(name()) + "</title>\n<style>" + kStyle + "</style>\n" + body + "</html>\n";
  }

 private:
  static std::vector<std::int64_t> restarts(const RunRecord& run) {
    std::vector<std::int64_t> steps;
    for (const Json& start : list_of(run.facts.at("starts"))) {
      if (integer_in(start, "first_step") > 1) steps.push_back(integer_in(start, "first_step"));
    }
    return steps;
  }

  const Json& plan() const { return run_.facts.at("plan"); }
  const Json& end() const { return run_.facts.at("end"); }
  const RunCurves& seen() const { return run_.curves; }

  std::string name() const {
    return formatted("{}, {} parameters", text_in(plan().at("model"), "family"),
                     with_commas(integer_in(plan().at("model"), "parameters")));
  }

  static std::int64_t steps_done(const RunRecord& run) {
    const Json& end = run.facts.at("end");
    return end.is_object() ? integer_in(end, "step") : run.curves.last.step;
  }

  static std::string state_of(const RunRecord& run) {
    const Json& end = run.facts.at("end");
    const std::string ending = end.is_object() ? text_in(end, "ending") : "running";
    const std::int64_t all = std::llround(setting_number(run, "training.steps"));
    return formatted("{} after step {}{}",
                     ending == "stopped"   ? "stopped by a signal"
                     : ending == "failed"  ? "ended by an error"
                     : ending == "running" ? "not ended,"
                                           : "finished",
                     with_commas(steps_done(run)),
                     all > 0 ? formatted(" of {}", with_commas(all)) : "");
  }

  static double setting_number(const RunRecord& run, const std::string& key) {
    return number_in(run.facts.at("settings").at(key), "value");
  }

  std::string data_line() const {
    const Json& data = run_.facts.at("data");
    if (!data.is_object()) return {};
    const Json::List& files = list_of(data.at("files"));
    std::vector<std::string> parts;
    if (!files.empty() && files.front().is_string()) {
      const auto more = static_cast<std::int64_t>(integer_in(data, "num_files")) - 1;
      parts.push_back("Data: " + files.front().text() +
                      (more > 0 ? " and " + counted(more, "more file") : std::string()) + ", " +
                      with_commas(integer_in(data, "bytes")) + " bytes");
    }
    const double rows = number_in(data, "sequences"), batch = number_in(data, "global_batch");
    const auto seen_rows = batch * static_cast<double>(steps_done(run_));
    if (rows > 0) {
      parts.push_back(formatted("{} sequences seen of {}: {} epochs",
                                with_commas(std::llround(seen_rows)),
                                with_commas(std::llround(rows)), fixed(seen_rows / rows, 2)));
    }
    if (seen().tokens > 0)
      parts.push_back(
          formatted("{} counted tokens in the logged steps", with_commas(seen().tokens)));
    if (const double seconds = duration(); seconds > 0)
      parts.push_back("took " + duration_text(seconds));
    return join(parts, "; ") + ".";
  }

  double duration() const {
    const double ended = number_in(end(), "seconds");
    return ended > 0 ? ended - number_in(list_of(run_.facts.at("starts")).back(), "seconds") : 0;
  }

  std::string heading() const {
    const Json& schedule = plan().at("schedule");
    const std::int64_t ranks = integer_in(plan().at("data_parallel"), "num_ranks");
    std::string text = "<h1>" + escaped(name()) + "</h1>\n";
    const std::int64_t rows = integer_in(schedule, "microbatch_size");
    text += paragraph(
        formatted("{}, {}, {}, {} of {}; {}.", text_in(schedule, "name"), counted(ranks, "rank"),
                  counted(integer_in(plan().at("split"), "num_stages"), "stage"),
                  counted(integer_in(schedule, "num_microbatches"), "microbatch"),
                  schedule.at("seq_len").is_null()
                      ? counted(rows, "row")
                      : formatted("{} x {} tokens", rows, integer_in(schedule, "seq_len")),
                  state_of(run_)));
    if (const std::string data = data_line(); !data.empty()) text += paragraph(data);
    if (other_)
      text += paragraph(formatted("{} (blue) beside {} (orange, {}).", run_.folder, other_->folder,
                                  state_of(*other_)));
    return text;
  }

  static std::string tile(const std::string& value, const std::string& name,
                          const std::string& other) {
    return "<div class=\"tile\"><b>" + escaped(value) + "</b>" +
           (other.empty() ? "" : "<span class=\"o\">" + escaped(other) + "</span>") + "<span>" +
           escaped(name) + "</span></div>\n";
  }
  std::string tile(const std::string& name,
                   const std::function<std::string(const RunRecord&)>& value) const {
    const std::string own = value(run_);
    if (own.empty()) return {};
    return tile(own, name, other_ ? value(*other_) : "");
  }

  std::string tiles() const {
    if (seen().steps == 0) return paragraph("No step is logged yet.");
    std::string text = "<div class=\"tiles\">\n";
    text += tile("loss, last step", [](const RunRecord& run) {
      return run.curves.loss.empty() ? "" : fixed(run.curves.loss.last(), 4);
    });
    text += tile("validation loss", [](const RunRecord& run) {
      const Curve& curve = run.curves.validation_loss;
      return curve.empty() ? "" : fixed(curve.last(), 4);
    });
    text += tile("step, median", [](const RunRecord& run) {
      const std::optional<double> median = run.curves.step_times.median();
      return median ? ms_text(*median) : "";
    });
    text += tile("tokens a second, median step", [](const RunRecord& run) {
      const std::optional<double> median = run.curves.step_times.median();
      if (!median || *median <= 0) return std::string();
      const double rate = static_cast<double>(run.curves.last.tokens) / *median;
      return rate < 1e12 ? with_commas(std::llround(rate)) : short_number(rate);
    });
    text += tile("outside forward and backward", [](const RunRecord& run) {
      if (run.curves.counted == 0) return std::string();
      return fixed(100 * run.curves.bubble / static_cast<double>(run.curves.counted), 1) + "%";
    });
    text += tile("peak memory of a rank", [](const RunRecord& run) {
      const auto& peaks = run.curves.peaks;
      return peaks.empty() ? "" : human_bytes(*std::max_element(peaks.begin(), peaks.end()));
    });
    return text + "</div>\n";
  }

  std::string notices() const {
    std::string text;
    if (const std::string error = text_in(end(), "error"); !error.empty())
      text += "<div class=\"note bad\">" + escaped_lines(error) + "</div>\n";
    for (const Json& warning : list_of(run_.facts.at("warnings")))
      if (warning.is_string())
        text += "<div class=\"note\">" + escaped_lines(warning.text()) + "</div>\n";
    return text.empty() ? text : headline("Warnings") + text;
  }
  static std::string escaped_lines(const std::string& text) {
    std::vector<std::string> lines = sluice::split(text, '\n');
    for (std::string& line : lines) line = escaped(line);
    return join(lines, "\n");
  }

  std::string curves() const {
    if (seen().steps == 0) return {};
    const RunCurves* const other = other_ ? &other_->curves : nullptr;
    const auto chart = [&](const std::string& title, Curve RunCurves::*curve,
                           Curve RunCurves::*validation = nullptr,
                           Chart::Axis axis = Chart::kAroundValues) {
      std::vector<Series> series = {{other        ? "this"
                                     : validation ? "training"
                                                  : "",
                                     "a", &(seen().*curve)}};
      if (other) series.push_back({"other", "o", &(other->*curve)});
      if (validation && !(seen().*validation).empty())
        series.push_back({"validation", "v", &(seen().*validation)});
      if (validation && other && !(other->*validation).empty())
        series.push_back({"its validation", "w", &(other->*validation)});
      if (series.size() == 1) series.front().name.clear();
      return Chart(title, std::move(series), marks_, axis).html();
    };
    std::string text =
        "<div class=\"two\">\n" +
        chart("loss, nats a token", &RunCurves::loss, &RunCurves::validation_loss) +
        chart("tokens a second", &RunCurves::tokens_per_second, nullptr, Chart::kFromZero) +
        chart("norm of the gradient", &RunCurves::grad_norm) +
        chart("learning rate", &RunCurves::lr) + "</div>\n";
    std::vector<std::string> marks;
    if (!marks_.restarts.empty()) marks.emplace_back("Dotted lines: the run was started again.");
    if (!marks_.saves.empty()) marks.emplace_back("Ticks at the bottom: checkpoints.");
    if (Curve::kMost < static_cast<std::size_t>(seen().steps))
      marks.emplace_back("Steps share points, whose largest and smallest values are shown.");
    return marks.empty() ? text : text + paragraph(join(marks, " "));
  }

  static std::string picture(const Picture& drawn) {
    return "<div class=\"wide\">" + picture_svg(drawn) + "</div>\n";
  }

  static std::optional<Picture> last_step(const RunRecord& run) {
    const Json& last = run.facts.at("end").at("last_step");
    if (!last.is_object()) return {};
    return picture_of_json(last.at("picture"), run_file_path(run.folder));
  }

  std::string steps() const {
    Picture expected = picture_of_json(run_.facts.at("expected"), run_file_path(run_.folder));
    std::optional<Picture> ran = last_step(run_), theirs;
    if (other_) theirs = last_step(*other_);
    std::vector<Picture*> all = {&expected};
    for (std::optional<Picture>* each : {&ran, &theirs})
      if (*each) all.push_back(&**each);
    share_scale(all);
    std::string text = headline("A step as it was expected") + picture(expected);
    if (!ran) return text;
    const bool whole = text_in(end(), "ending") != "failed";
    const Json& last = end().at("last_step");
    text += headline(formatted("Step {} as it {}", with_commas(integer_in(last, "step")),
                               whole ? "ran" : "was running"));
    text += picture(*ran);
    text += paragraph(
        std::string(all.front()->basis.unit == "s"
                        ? "All steps have one time axis. "
                        : "The time axis is the share of each step, "
                          "since no times were measured for the plan. ") +
        "Idle is the time in which a rank neither computes nor updates. Metrics call \"bubble\" "
        "all "
        "that is outside forward and backward: idle time, and also the update, sums and norms, the "
        "batch. On a machine with fewer cores than ranks, ranks also wait for a core, within an "
        "action or between two.");
    if (!theirs) return text;
    const Json& other_last = other_->facts.at("end").at("last_step");
    return text +
           headline(formatted("Step {} of the other as it ran",
                              with_commas(integer_in(other_last, "step")))) +
           picture(*theirs);
  }

  std::string time_by_rank() const {
    if (seen().seconds.empty() || seen().counted == 0) return {};
    constexpr double kWidth = 900, kLabelWidth = 60, kLane = 20, kPitch = 25;
    double longest = 0;
    for (const RankSeconds& rank : seen().seconds) {
      double sum = 0;
      for (const Share& share : kShares) sum += rank.*share.seconds;
      longest = std::max(longest, sum);
    }
    if (!(longest > 0)) return {};
    const auto ranks = static_cast<double>(seen().seconds.size());
    const double height = ranks * kPitch + 26;
    std::string text =
        headline("Where the time of a step goes") +
        paragraph(formatted("Means of {}{}.", counted(seen().counted, "logged step"),
                            seen().steps > 1 ? ", without the first" : ", the first")) +
        "<div class=\"wide\"><svg viewBox=\"0 0 " + px(kWidth) + " " + px(height) +
        "\" class=\"bars\" role=\"img\"><title>Time by rank</title>\n";
    double y = 2;
    for (std::size_t rank = 0; rank < seen().seconds.size(); ++rank, y += kPitch) {
      text += svg::text_at(kLabelWidth - 8, y + 14, "class=\"e\"", formatted("rank {}", rank));
      double x = kLabelWidth;
      for (const Share& share : kShares) {
        const double seconds = seen().seconds[rank].*share.seconds;
        const double width = seconds / longest * (kWidth - kLabelWidth - 4);
        text += "<rect x=\"" + px(x) + "\" y=\"" + px(y) + "\" width=\"" + px(width) +
                "\" height=\"" + px(kLane) + "\" fill=\"" + share.color + "\"><title>" +
                formatted("rank {}, {}: {}", rank, share.name,
                          ms_text(seconds / static_cast<double>(seen().counted))) +
                "</title></rect>";
        x += width;
      }
      text += "\n";
    }
    double x = kLabelWidth;
    for (const Share& share : kShares) {
      text += "<rect x=\"" + px(x) + "\" y=\"" + px(y + 6) +
              "\" width=\"11\" height=\"11\" fill=\"" + share.color + "\"/>" +
              svg::text_at(x + 16, y + 16, "", share.name);
      x += 34 + 6.2 * static_cast<double>(std::string_view(share.name).size());
    }
    return text + "</svg></div>\n";
  }

  std::string memory() const {
    if (seen().peaks.empty()) return {};
    Table table(
        other_ ? std::vector<std::string>{"rank", "predicted", "measured", "measured / predicted",
                                          "the other's"}
               : std::vector<std::string>{"rank", "predicted", "measured", "measured / predicted"},
        0);
    const Json::List& predicted = list_of(plan().at("memory"));
    const Json::List& rows = list_of(run_.facts.at("row_of_rank"));
    for (std::size_t rank = 0; rank < seen().peaks.size(); ++rank) {
      const std::size_t row = rank < rows.size() && rows[rank].is_number()
                                  ? static_cast<std::size_t>(rows[rank].integer())
                                  : rank;
      const double expected = row < predicted.size() ? number_in(predicted[row], "total_bytes") : 0;
      const auto peak = static_cast<double>(seen().peaks[rank]);
      std::vector<std::string> cells = {std::to_string(rank), human_bytes(std::llround(expected)),
                                        human_bytes(seen().peaks[rank]),
                                        expected > 0 ? fixed(peak / expected, 2) : ""};
      if (other_)
        cells.push_back(rank < other_->curves.peaks.size() ? human_bytes(other_->curves.peaks[rank])
                                                           : "");
      table.add(cells);
    }
    return headline("Memory") + paragraph("The most bytes of tensors that a rank held at once.") +
           table.html();
  }

  std::string split() const {
    Table table({"stage", "rank", "modules", "layers", "parameters"}, 3);
    for (const Json& stage : list_of(plan().at("split").at("stages"))) {
      std::vector<std::string> modules;
      for (const Json& module : list_of(stage.at("modules")))
        if (module.is_string()) modules.push_back(module.text());
      table.add({std::to_string(integer_in(stage, "stage")),
                 std::to_string(integer_in(stage, "rank")), escaped(join(modules, ", ")),
                 std::to_string(integer_in(stage, "num_layers")),
                 with_commas(integer_in(stage, "num_parameters"))});
    }
    return headline("Split") + table.html();
  }

  std::string continuations() const {
    if (seen().continuations.empty()) return {};
    std::string text =
        headline(formatted("Continuations after step {}", with_commas(seen().continued_at)));
    for (const auto& [prompt, continued] : seen().continuations)
      text += "<pre><b>" + escaped_lines(prompt) + "</b>" + escaped_lines(continued) + "</pre>\n";
    return text;
  }

  static std::map<std::string, std::string> setting_texts(const Json& settings) {
    std::map<std::string, std::string> texts;
    for (const auto& [key, setting] : members_of(settings))
      texts.emplace(key, setting_text(setting.at("value")));
    return texts;
  }

  std::string settings() const {
    const Json& own = run_.facts.at("settings");
    std::string text = headline("Settings");
    if (other_) {
      const std::map<std::string, std::string> theirs = setting_texts(other_->facts.at("settings"));
      Table differing({"key", "this", "other"}, 3);
      bool any = false;
      for (const auto& [key, value] : members_of(own)) {
        const auto found = theirs.find(key);
        const std::string here = setting_text(value.at("value")),
                          there = found == theirs.end() ? "" : found->second;
        if (here == there) continue;
        differing.add({"<code>" + escaped(key) + "</code>", escaped(here), escaped(there)});
        any = true;
      }
      text += any ? paragraph("These differ:") + differing.html()
                  : paragraph("All settings of both runs are alike.");
    }
    Table changed({"key", "value", "from"}, 3), rest({"key", "value"}, 2);
    for (const auto& [key, value] : members_of(own)) {
      const std::string name = "<code>" + escaped(key) + "</code>";
      const std::string origin = text_in(value, "origin");
      const std::string shown = escaped(setting_text(value.at("value")));
      if (origin == "default") {
        rest.add({name, shown});
      } else {
        changed.add({name, shown, escaped(origin)});
      }
    }
    return text + changed.html() + "<details><summary>Those at their defaults</summary>\n" +
           rest.html() + "</details>\n";
  }

  std::string environment() const {
    Table table({"started", "first step", "from", "sluice", "torch", "machine"}, 6);
    for (const Json& start : list_of(run_.facts.at("starts"))) {
      const std::string from = text_in(start, "checkpoint");
      table.add({"<span class=\"t\">" + escaped(text_in(start, "time")) + "</span>",
                 with_commas(integer_in(start, "first_step")),
                 from.empty() ? "the beginning" : escaped(from), escaped(text_in(start, "sluice")),
                 escaped(text_in(start, "torch")),
                 escaped(formatted("{}: {}, {}, {}; {} of the run, {} a rank",
                                   text_in(start, "host"), text_in(start, "processor"),
                                   counted(integer_in(start, "cores"), "core"),
                                   human_bytes(integer_in(start, "memory_bytes")),
                                   counted(integer_in(start, "processes"), "process"),
                                   counted(integer_in(start, "threads_per_rank"), "thread")))});
    }
    std::string text = headline("Environment") + table.html();
    std::string foot = "Configuration: " + text_in(run_.facts, "config") + ".";
    if (end().is_object()) {
      foot += " Ended " + text_in(end(), "time") + ".";
      if (const std::string weights = text_in(end(), "weights"); !weights.empty())
        foot += " Weights: " + weights + ".";
    }
    return text + paragraph(foot);
  }

  const RunRecord& run_;
  const RunRecord* other_;
  Marks marks_;
};

double changed_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * status.st_mtim.tv_nsec;
}

}  // namespace

std::string run_file_path(const std::string& folder) { return folder + "/run.json"; }
std::string report_path(const std::string& folder) { return folder + "/report.html"; }

Json read_run_facts(const std::string& path) {
  Json facts = parse_strict_json(read_text(path, kMostFacts), path, KeyOrder::kAsWritten);
  if (integer_in(facts, "format") != kFormat || !facts.at("plan").is_object() ||
      !facts.at("starts").is_array() || facts.at("starts").empty())
    throw damaged(path, "the file is not a run.json of this version");
  return facts;
}

std::int64_t read_curves(const std::string& path, std::int64_t last_step, RunCurves& curves) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return 0;
  const File source = File::open(path);
  LineReader reader(source, MetricsFile::kLongestLine);
  std::int64_t foreign = 0, newest = 0;
  while (const std::optional<LineReader::Line> line = reader.next()) {
    const std::optional<StepMetrics> metrics =
        line->has_end && !line->is_too_long ? parse_metrics(line->text) : std::nullopt;
    if (!metrics || metrics->step <= newest) {
      ++foreign;
    } else if (metrics->step <= last_step) {
      newest = metrics->step;
      curves.add(*metrics);
    }
  }
  return foreign;
}

RunRecord read_run(const std::string& folder) {
  const std::string facts = run_file_path(folder);
  std::error_code unknown;
  if (std::filesystem::status(facts, unknown).type() == std::filesystem::file_type::not_found) {
    throw Error(ErrorKind::kInput, {.what = "there is no record of a run",
                                    .where = facts,
                                    .remedy = "name the metrics.folder of a run that made a step"});
  }
  RunRecord run = {.folder = folder, .facts = read_run_facts(facts)};
  const std::string metrics = MetricsFile::path_in(folder);
  const Json& end = run.facts.at("end");
  const Json& start = run.facts.at("starts").list().back();
  const std::int64_t before = integer_in(start, "first_step") - 1;
  const bool is_older = end.is_object() ? integer_in(end, "step") == before
                                        : changed_at(metrics) < number_in(start, "seconds");
  run.foreign_lines = read_curves(
      metrics, is_older ? before : std::numeric_limits<std::int64_t>::max(), run.curves);
  return run;
}

Json picture_json(const Picture& picture) {
  Json ranks = Json::array();
  for (std::size_t i = 0; i < picture.simulation.ranks.size(); ++i) {
    const RankTimeline& of = picture.simulation.ranks[i];
    Json actions = Json::array(), live = Json::array();
    for (const TimedAction& timed : of.actions) {
      Json& action = actions.push_back(Json::array());
      action.push_back(to_text(timed.action));
      action.push_back(timed.start);
      action.push_back(timed.end);
    }
    for (const LivePoint& point : picture.live[i]) {
      Json& pair = live.push_back(Json::array());
      pair.push_back(point.time);
      pair.push_back(point.live);
    }
    ranks.push_back({{"busy", of.busy},
                     {"actions", std::move(actions)},
                     {"live", std::move(live)},
                     {"pairs", picture.pairs[i]}});
  }
  return {{"title", picture.title},
          {"subtitle", picture.subtitle},
          {"unit", picture.basis.unit},
          {"measured", picture.basis.measured},
          {"makespan", picture.simulation.makespan},
          {"idle", picture.simulation.bubble_fraction},
          {"live_in_bytes", picture.live_in_bytes},
          {"ranks", std::move(ranks)}};
}

Picture picture_of_json(const Json& object, const std::string& file) {
  try {
    Picture picture = {
        .title = object.at("title").text(),
        .subtitle = object.at("subtitle").text(),
        .basis = {.unit = object.at("unit").text(), .measured = object.at("measured").boolean()},
        .live_in_bytes = object.at("live_in_bytes").boolean()};
    picture.simulation.makespan = object.at("makespan").number();
    picture.simulation.bubble_fraction = object.at("idle").number();
    if (object.at("ranks").size() > kMostRanks)
      throw damaged(file, formatted("a picture has {} ranks", object.at("ranks").size()));
    for (const Json& each : object.at("ranks").list()) {
      RankTimeline& rank = picture.simulation.ranks.emplace_back();
      rank.busy = each.at("busy").number();
      for (const Json& action : each.at("actions").list()) {
        const Json::List& of = action.list();
        rank.actions.push_back(
            {parse_action(of.at(0).text()), of.at(1).number(), of.at(2).number()});
      }
      std::vector<LivePoint>& live = picture.live.emplace_back();
      for (const Json& point : each.at("live").list())
        live.push_back({point.list().at(0).number(), point.list().at(1).number()});
      std::vector<int>& pairs = picture.pairs.emplace_back();
      for (const Json& pair : each.at("pairs").list()) {
        const std::int64_t first = pair.integer();
        if (first < 0 || first + 1 >= static_cast<std::int64_t>(rank.actions.size()))
          throw damaged(file, "a picture names a pair of actions that it lacks");
        pairs.push_back(static_cast<int>(first));
      }
    }
    return picture;
  } catch (const std::exception& error) {
    throw damaged(file,
                  std::string("a picture in the file cannot be read: ") + first_line(error.what()));
  }
}

std::string report_html(const RunRecord& run, const RunRecord* other) {
  return Page(run, other).html();
}

}  // namespace sluice
