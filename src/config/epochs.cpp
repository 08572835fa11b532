#include "config/epochs.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/text.h"
#include "config/batch_sizes.h"
#include "config/option_keys.h"
#include "config/origins.h"

namespace sluice {
namespace {

// Three significant digits, without trailing zeros.
std::string short_number(double number) {
  const int digits = number <= 0 ? 0 : 2 - static_cast<int>(std::floor(std::log10(number)));
  std::string text = fixed(number, std::clamp(digits, 0, 12));
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

bool Interval::is_due(std::int64_t step) const {
  if (epochs == 0) return steps > 0 && step % steps == 0;
  // 1.1 epochs of 10 rows are 11.000000000000002 rows, so allow for rounding.
  const auto intervals_in = [this](std::int64_t of_steps) {
    const double read = static_cast<double>(done.position.sequence) +
                        static_cast<double>(of_steps - done.steps) * rows_per_step;
    return std::floor(read / rows + 1e-9);
  };
  return intervals_in(step) > intervals_in(step - 1);
}

void set_steps(RunConfig& config, const TokenData& data, const StepsDone& done) {
  const std::int64_t batch_size = batch_sizes(config).global_batch;
  for (Interval* interval : {&config.checkpoint.interval, &config.validation.interval}) {
    interval->rows = interval->epochs * static_cast<double>(data.num_sequences());
    interval->rows_per_step = static_cast<double>(batch_size);
    interval->done = done;
  }
  if (config.training.epochs == 0) return;
  config.training.steps = data.num_steps(batch_size, done);
  config.origins["training.steps"] =
      formatted("training.epochs = {}", shortest(config.training.epochs));
}

std::string steps_text(const RunConfig& config, const TokenData& data, const StepsDone& done) {
  const std::int64_t steps = config.training.steps, rows = data.num_sequences();
  const std::int64_t read =
      data.position_of(steps + 1, batch_sizes(config).global_batch, done).sequence;
  const std::string epochs = short_number(static_cast<double>(read) / static_cast<double>(rows));
  return formatted("{} = {} {} of {}", counted(steps, "step"), epochs,
                   epochs == "1" ? "epoch" : "epochs", counted(rows, "row"));
}

bool depends_on_steps(const LearningRateOptions& options) {
  return options.decay != Decay::kConstant || options.warmup_ratio > 0;
}

std::string warmup_warning(const RunConfig& config) {
  const std::int64_t warmup = config.lr_scheduler.warmup_steps;
  if (warmup <= config.training.steps) return {};
  return detail::with_place(
      config, "lr_scheduler.warmup_steps",
      formatted("lr_scheduler.warmup_steps = {} is more than training.steps = {}: the rate never "
                "reaches optimizer.lr",
                warmup, config.training.steps));
}

}  // namespace sluice
