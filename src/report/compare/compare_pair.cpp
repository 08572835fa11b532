#include "report/compare/compare_pair.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/format.h"
#include "base/text.h"
#include "report/compare/tensor_distance.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// For weights: how far an element may be off after one step, in units of roundoff, and the share of
// elements that may be farther off because AdamW changed the sign of their update.
constexpr double kWeightRoundings = 16;
constexpr double kShareOfWeights = 0.02;
// With fewer elements a common factor looks like noise.
constexpr std::int64_t kFewestElements = 64;

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

// Returns ", B is 2 times A" if the factor is a whole number or its inverse.
std::string factor_text(double factor, const PairComparison& pair) {
  for (const bool is_inverse : {false, true}) {
    const double times = is_inverse ? 1 / factor : factor;
    const double whole = std::round(times);
    if (!(whole >= 2 && whole <= 1024) || std::abs(times - whole) > 2e-3 * whole) continue;
    return formatted(", {} is {} times {}", is_inverse ? pair.a : pair.b,
                     static_cast<std::int64_t>(whole), is_inverse ? pair.b : pair.a);
  }
  return "";
}

Error nothing_common(const ComparedRun& a, const ComparedRun& b, const std::string& what,
                     const std::string& remedy) {
  return {ErrorKind::kInput,
          {.what = "the runs have no " + what + " in common",
           .where = formatted("{} and {}", a.path, b.path),
           .remedy = remedy}};
}

std::string some_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNames = 6;
  if (names.empty()) return "none";
  std::vector<std::string> some(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                   kMostNames, names.size())));
  if (names.size() > kMostNames) some.emplace_back("..");
  return join(some, ", ");
}

template <typename Map>
std::vector<std::int64_t> common_steps(const Map& a, const Map& b) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, value] : a)
    if (b.contains(step)) steps.push_back(step);
  return steps;
}

// Updates that lie between equal states and `step`. Runs that log every step, or from the first,
// are taken to start equal at their first common step.
std::int64_t updates_before(const std::vector<std::int64_t>& steps, std::int64_t step) {
  const std::int64_t first = steps.front();
  const bool starts_here = first <= 1 || (steps.size() > 1 && steps[1] == first + 1);
  return starts_here ? step - first : step;
}

bool is_bias(const std::string& name) { return name.find("bias") != std::string::npos; }

// ---- scalars ----

struct ScalarPair {
  const std::string& tag;
  const ScalarCurve &a, &b;
};

void compare_curves(const ScalarPair& curves, const Arithmetic& arithmetic, double largest_norm,
                    std::vector<Difference>& found, PairComparison& pair) {
  const bool is_norm = curves.tag.find("norm") != std::string::npos;
  const bool is_of_one = curves.tag.starts_with("parameter_grad_norms/");
  const double relative = is_of_one ? arithmetic.gradient_bound()
                          : is_norm ? arithmetic.norm_bound()
                                    : arithmetic.loss_bound();
  // Gradients of some biases consist of rounding errors alone.
  const double floor =
      is_of_one && is_bias(curves.tag) ? arithmetic.scale_bound() * largest_norm : 0;
  const double written = 1.01 * std::max(written_step(curves.a), written_step(curves.b));
  const std::vector<std::int64_t> steps = common_steps(curves.a, curves.b);
  double moved_a = 0, moved_b = 0, last_a = 0, last_b = 0;
  bool has_last = false;
  for (const std::int64_t step : steps) {
    const double x = curves.a.at(step), y = curves.b.at(step);
    ++pair.compared;
    if (std::isfinite(x) && std::isfinite(y)) {
      if (has_last) {
        moved_a += std::abs(x - last_a);
        moved_b += std::abs(y - last_b);
      }
      last_a = x, last_b = y, has_last = true;
    }
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    Difference difference{.step = step, .name = curves.tag};
    const double size = std::max(std::abs(x), std::abs(y));
    difference.distance = std::abs(x - y) / size;
    const std::int64_t updates = updates_before(steps, step);
    const double moved = updates > 0 ? std::max(moved_a, moved_b) : 0;
    const double at_start = updates > 0 && step == steps.front()
                                ? std::max(relative, arithmetic.curve_bound(updates))
                                : relative;
    const double allowed = at_start * size + floor + written +
                           (updates > 0 ? arithmetic.curve_bound(updates) * moved : 0);
    difference.bound = allowed / size;
    difference.ulps = std::abs(x - y) / arithmetic.dtype->ulp(size);
    difference.is_beyond = !(std::abs(x - y) <= allowed);
    if (!std::isfinite(x) || !std::isfinite(y)) {
      difference.distance = difference.ulps = kInfinity;
      difference.is_beyond = true;
    }
    difference.evidence = formatted("{} and {}{}", number_text(x), number_text(y),
                                    difference.is_beyond ? factor_text(y / x, pair) : "");
    found.push_back(std::move(difference));
  }
}

void compare_scalars(const ComparedRun& a, const ComparedRun& b, const Arithmetic& arithmetic,
                     PairComparison& pair) {
  std::vector<Difference> found;
  std::vector<std::string> names_a, names_b;
  for (const auto& [tag, curve] : b.scalars.curves)
    if (is_compared_scalar(tag)) names_b.push_back(tag);
  bool has_common_tag = false;
  double largest_norm = 0;
  for (const auto& [tag, curve] : a.scalars.curves)
    if (tag.starts_with("parameter_grad_norms/") && !curve.empty())
      largest_norm = std::max(largest_norm, curve.begin()->second);
  for (const auto& [tag, curve] : a.scalars.curves) {
    if (!is_compared_scalar(tag)) continue;
    names_a.push_back(tag);
    const auto other = b.scalars.curves.find(tag);
    if (other == b.scalars.curves.end()) continue;
    has_common_tag = true;
    if (common_steps(curve, other->second).empty()) continue;
    compare_curves({tag, curve, other->second}, arithmetic, largest_norm, found, pair);
  }
  if (!has_common_tag) {
    throw nothing_common(a, b, "loss or norm",
                         formatted("give both the same names; {} has {}; {} has {}", a.name,
                                   some_names(names_a), b.name, some_names(names_b)));
  }
  if (pair.compared == 0)
    throw nothing_common(a, b, "step", "compare runs that logged the same steps");
  std::stable_sort(found.begin(), found.end(),
                   [](const Difference& x, const Difference& y) { return x.step < y.step; });
  for (Difference& difference : found) pair.add(std::move(difference));
}

// ---- tensors ----

class TensorComparison {
 public:
  TensorComparison(const ComparedRun& a, const ComparedRun& b, const Arithmetic& arithmetic,
                   const TensorQuestion& question, TensorFiles& files, PairComparison& pair)
      : a_(a),
        b_(b),
        arithmetic_(arithmetic),
        kind_(question.kind),
        start_(question.start),
        files_(files),
        pair_(pair) {}

  void run() {
    const std::vector<std::int64_t> steps = common_steps(a_.tensors, b_.tensors);
    if (steps.empty())
      throw nothing_common(a_, b_, "step", "name files or folders of the same steps");
    for (const std::int64_t step : steps) {
      step_ = step;
      updates_ = kind_ == TensorKind::kWeights ? std::max<std::int64_t>(step - start_step_, 1)
                                               : updates_before(steps, step);
      require_common_name(a_.tensors.at(step), b_.tensors.at(step));
      compare_step(a_.tensors.at(step), b_.tensors.at(step));
      if (kind_ == TensorKind::kWeights && !start_)
        start_ = &a_.tensors.at(step), start_step_ = step;
    }
  }

 private:
  struct Measured {
    std::string name;
    const StoredTensor &a, &b;
    TensorDistance distance;
  };

  void require_common_name(const TensorTable& a, const TensorTable& b) const {
    if (std::any_of(a.begin(), a.end(), [&](const auto& each) { return b.contains(each.first); }))
      return;
    const auto first_name = [](const TensorTable& table) {
      return table.empty() ? std::string("none") : table.begin()->first;
    };
    throw nothing_common(a_, b_, "tensor",
                         formatted("give both the same names; {} has {}, {} has {}", a_.name,
                                   first_name(a), b_.name, first_name(b)));
  }

  void compare_step(const TensorTable& a, const TensorTable& b) {
    std::set<std::string, NaturalOrder> names;
    for (const TensorTable* table : {&a, &b})
      for (const auto& [name, tensor] : *table) names.insert(name);
    std::vector<Measured> measured;
    for (const std::string& name : names) {
      ++pair_.compared;
      const auto in_a = a.find(name), in_b = b.find(name);
      if (in_a == a.end() || in_b == b.end()) {
        add_beyond(name, "only in " + (in_a == a.end() ? pair_.b : pair_.a));
      } else if (in_a->second.shape != in_b->second.shape) {
        add_beyond(name, formatted("{} and {}", in_a->second.form(), in_b->second.form()));
      } else {
        const TensorDistance distance = tensor_distance(in_a->second, in_b->second, files_);
        measured.push_back({name, in_a->second, in_b->second, distance});
      }
    }
    // Gradients of some biases consist of rounding errors alone. Judge them by the size of the
    // other tensors.
    const bool differs_in_bias =
        std::any_of(measured.begin(), measured.end(),
                    [](const auto& each) { return !each.distance.equal() && is_bias(each.name); });
    double largest_rms = 0;
    for (const Measured& each : measured)
      if (differs_in_bias && find_stored_float(each.a.dtype))
        largest_rms = std::max(largest_rms, tensor_rms(each.a, files_));
    for (const Measured& each : measured)
      if (!each.distance.equal()) judge(each, largest_rms);
  }

  void add_beyond(const std::string& name, const std::string& evidence) {
    pair_.add({.step = step_,
               .name = name,
               .evidence = evidence,
               .distance = kInfinity,
               .ulps = kInfinity,
               .is_beyond = true});
  }

  // The arithmetic, or the dtype of the stored tensors if that is coarser.
  Arithmetic arithmetic_of(const Measured& each) const {
    Arithmetic coarsest = arithmetic_;
    for (const StoredTensor* tensor : {&each.a, &each.b}) {
      const FloatDtype* const dtype = find_stored_float(tensor->dtype);
      if (dtype->mantissa_bits < coarsest.dtype->mantissa_bits) coarsest.dtype = dtype;
    }
    return coarsest;
  }

  void judge(const Measured& each, double largest_rms) {
    const TensorDistance& distance = each.distance;
    if (distance.not_finite > 0) {
      add_beyond(each.name, formatted("in one run only, {} a finite value",
                                      distance.not_finite == 1
                                          ? "1 element has"
                                          : formatted("{} elements have", distance.not_finite)));
      return;
    }
    const Arithmetic arithmetic = arithmetic_of(each);
    Difference difference{.step = step_, .name = each.name, .ulps = distance.largest_ulps};
    kind_ == TensorKind::kWeights ? judge_weights(each, arithmetic, difference)
                                  : judge_gradient(each, arithmetic, largest_rms, difference);
    difference.is_beyond = difference.distance > difference.bound;
    judge_scale(distance, arithmetic, difference);
    if (difference.evidence.empty()) {
      difference.evidence = formatted("{} of {} elements, at most {} apart", distance.different,
                                      distance.elements, short_number(distance.largest_difference));
    }
    pair_.add(std::move(difference));
  }

  void judge_gradient(const Measured& each, const Arithmetic& arithmetic, double largest_rms,
                      Difference& difference) const {
    difference.distance = each.distance.relative();
    difference.bound =
        updates_ > 0 ? arithmetic.update_bound(updates_) : arithmetic.gradient_bound();
    if (is_bias(each.name) && each.distance.rms() > 0)
      difference.bound += arithmetic.scale_bound() * largest_rms / each.distance.rms();
  }

  void judge_weights(const Measured& each, const Arithmetic& arithmetic,
                     Difference& difference) const {
    const double roundings = kWeightRoundings * std::sqrt(static_cast<double>(updates_)) *
                             arithmetic.dtype->unit_roundoff();
    difference.distance = share_beyond(each.a, each.b, each.distance.rms(), roundings, files_);
    difference.bound = std::min(0.5, kShareOfWeights * Arithmetic::growth(updates_));
    difference.is_share = true;
    judge_move(each, arithmetic, difference);
  }

  // Relates the distance of the weights to how far training has moved them.
  void judge_move(const Measured& each, const Arithmetic& arithmetic,
                  Difference& difference) const {
    if (!start_) return;
    const auto start = start_->find(each.name);
    if (start == start_->end() || start->second.shape != each.a.shape) return;
    const double moved = std::max(tensor_distance(start->second, each.a, files_).norm_difference,
                                  tensor_distance(start->second, each.b, files_).norm_difference);
    const double norm = std::max(each.distance.norm_a, each.distance.norm_b);
    const double stored = find_stored_float(each.a.dtype)->unit_roundoff() * norm *
                          std::sqrt(static_cast<double>(updates_));
    if (!(moved > stored)) return;
    const double distance = each.distance.norm_difference / moved;
    const double bound = std::min(1.0, arithmetic.update_bound(updates_) + stored / moved);
    if (distance / bound < difference.distance / difference.bound) return;
    difference.distance = distance;
    difference.bound = bound;
    difference.is_share = false;
    difference.evidence =
        formatted("{} apart, moved by {} in training", short_number(each.distance.norm_difference),
                  short_number(moved));
  }

  // Rounding has no direction, so it cannot multiply all elements by one factor.
  void judge_scale(const TensorDistance& distance, const Arithmetic& arithmetic,
                   Difference& difference) const {
    const double off = std::abs(distance.scale - 1);
    const bool is_common_factor = distance.elements >= kFewestElements &&
                                  off > arithmetic.scale_bound() &&
                                  distance.norm_residual <= 0.2 * off * distance.norm_a;
    if (!is_common_factor) return;
    difference.is_beyond = difference.is_beyond || updates_ == 0 || kind_ == TensorKind::kWeights;
    if (!difference.is_beyond) return;
    std::string factor = factor_text(distance.scale, pair_);
    if (factor.empty())
      factor = formatted(", {} is {} times {}", pair_.b, number_text(distance.scale), pair_.a);
    difference.evidence =
        formatted("all elements share one factor{}, with a relative residual of {}", factor,
                  short_number(distance.norm_residual / distance.norm_a));
  }

  const ComparedRun &a_, &b_;
  const Arithmetic& arithmetic_;
  TensorKind kind_;
  const TensorTable* start_;  // weights before training, or nullptr
  std::int64_t start_step_ = 0;
  TensorFiles& files_;
  PairComparison& pair_;
  std::int64_t step_ = 0, updates_ = 0;
};

double share_of_bound(const Difference& difference) {
  if (difference.is_beyond && difference.distance <= difference.bound) return 1;
  return difference.bound > 0 ? difference.distance / difference.bound : kInfinity;
}

}  // namespace

void PairComparison::add(Difference difference) {
  ++different;
  verdict = std::max(verdict, difference.is_beyond ? RunVerdict::kBug : RunVerdict::kRounding);
  if (difference.is_beyond && beyond++ == 0) first_beyond = difference;
  if (!nearest || share_of_bound(difference) > share_of_bound(*nearest)) nearest = difference;
  if (!first) first = std::move(difference);
}

PairComparison compare_pair(const ComparedRun& a, const ComparedRun& b,
                            const Arithmetic& arithmetic, const TensorQuestion& question,
                            TensorFiles& files) {
  PairComparison pair{.a = a.name, .b = b.name};
  if (a.tensors.empty() != b.tensors.empty()) {
    throw Error(ErrorKind::kInput, {.what = "one run has tensors, the other has logged numbers",
                                    .where = formatted("{} and {}", a.path, b.path),
                                    .remedy = "name files of one kind"});
  }
  if (a.tensors.empty()) {
    compare_scalars(a, b, arithmetic, pair);
  } else {
    TensorComparison(a, b, arithmetic, question, files, pair).run();
  }
  return pair;
}

}  // namespace sluice
