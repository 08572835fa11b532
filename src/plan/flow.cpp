#include "sluice/parts/flow.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

[[noreturn]] void refuse_routes(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .remedy = remedy});
}

int count_stages(const std::vector<std::vector<int>>& routes) {
  std::size_t most = 0;
  for (const std::vector<int>& route : routes) most += route.size();
  int count = 0;
  for (const std::vector<int>& route : routes) {
    if (route.empty()) refuse_routes("a route passes no stage", "give every route a stage");
    for (const int stage : route) {
      if (stage < 0)
        refuse_routes("a route passes stage " + std::to_string(stage), "count stages from 0");
      if (static_cast<std::size_t>(stage) >= most) {
        refuse_routes(formatted("a route passes stage {}, but a lower stage is on no route", stage),
                      "leave no stage out");
      }
      count = std::max(count, stage + 1);
    }
  }
  return count;
}

}  // namespace

Flow Flow::chain(int num_stages) {
  Flow flow;
  flow.num_stages_ = std::max(num_stages, 0);
  return flow;
}

Flow Flow::along(const std::vector<std::vector<int>>& routes, std::vector<int> route_of) {
  if (routes.empty()) refuse_routes("no route is given", "give at least one, or use Flow::chain");
  Flow flow = chain(count_stages(routes));
  std::vector<bool> on_a_route(static_cast<std::size_t>(flow.num_stages_), false);
  for (const std::vector<int>& stages : routes) {
    Route& route = flow.routes_.emplace_back();
    route.first = stages.front();
    route.last = stages.back();
    route.steps.resize(static_cast<std::size_t>(flow.num_stages_));
    int before = kNone;
    for (const int stage : stages) {
      Step& step = route.steps[stage];
      if (step.is_passed) {
        refuse_routes(formatted("a route passes stage {} twice", stage), "name it once");
      }
      step = {before, kNone, true};
      if (before != kNone) route.steps[before].consumer = stage;
      before = stage;
      on_a_route[stage] = true;
    }
  }
  const auto left_out = std::find(on_a_route.begin(), on_a_route.end(), false);
  if (left_out != on_a_route.end()) {
    refuse_routes(formatted("stage {} is on no route", left_out - on_a_route.begin()),
                  "leave no stage out");
  }
  for (const int route : route_of) {
    if (route < 0 || route >= static_cast<int>(routes.size())) {
      refuse_routes(formatted("a microbatch takes route {} of only {}", route, routes.size()),
                    "count routes from 0");
    }
  }
  flow.route_of_ = std::move(route_of);
  return flow;
}

bool Flow::covers(int num_microbatches) const {
  if (route_of_.empty()) return routes_.size() <= 1;
  return route_of_.size() == static_cast<std::size_t>(num_microbatches);
}

int Flow::num_cuts() const {
  if (is_chain()) return std::max(num_stages_ - 1, 0);
  int count = 0;
  for (const Route& route : routes_) {
    for (int stage = count; stage < num_stages_; ++stage) {
      if (route.steps[stage].consumer != kNone) count = stage + 1;
    }
  }
  return count;
}

int Flow::num_passing(int stage, int num_microbatches) const {
  if (route_of_.empty()) return num_microbatches;
  int count = 0;
  for (int microbatch = 0; microbatch < num_microbatches; ++microbatch) {
    count += passes(stage, microbatch);
  }
  return count;
}

}  // namespace sluice
