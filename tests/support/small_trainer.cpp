// Tokens x_t become vectors e_0 = E[x_t]; e_l = e_(l-1) + tanh(W_l e_(l-1)); logits = H e_L. The
// label of token t is token t + 1. There are no biases and no attention. Layouts add up the sums
// over the width, over tokens and over microbatches in different orders.
#include "support/small_trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "base/format.h"
#include "base/safetensors_header.h"
#include "base/text.h"
#include "support/temp_directory.h"

namespace sluice::test {
namespace {

constexpr int kWidth = 24, kVocabulary = 32, kLayers = 4;
constexpr int kMicrobatches = 8, kTokens = 12;  // tokens of a microbatch

using Values = std::vector<float>;

float bfloat16_of(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7fff + (bits >> 16 & 1);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

class SmallModel {
 public:
  explicit SmallModel(const SmallTraining& training) : training_(training), draw_(training.seed) {
    add("embedding.weight", kVocabulary, 0.5);
    for (int layer = 0; layer < kLayers; ++layer)
      add(layer_name(layer), kWidth, 1 / std::sqrt(static_cast<double>(kWidth)));
    add("head.weight", kVocabulary, 0.5);
    std::mt19937_64 order(training.order);
    for (const int count : {kWidth, kVocabulary, kTokens, kMicrobatches}) {
      std::vector<int>& indices = orders_[count];
      indices.resize(static_cast<std::size_t>(count));
      std::iota(indices.begin(), indices.end(), 0);
      if (training.order != 0) std::shuffle(indices.begin(), indices.end(), order);
    }
  }

  void train(const std::string& folder) {
    write_tensors(folder + "/start.safetensors", weights_);
    std::string metrics;
    for (int step = 1; step <= training_.steps; ++step) {
      const double loss = gradients_of_step();
      double squares = 0;
      for (const auto& [name, gradient] : gradients_)
        for (const float value : gradient.values) squares += double{value} * value;
      metrics += formatted("{{\"step\":{},\"loss\":{},\"grad_norm\":{},\"tokens\":{}}}\n", step,
                           shortest(loss), shortest(std::sqrt(squares)), kMicrobatches * kTokens);
      write_tensors(formatted("{}/grads/grads-step-{}.safetensors", folder, step), gradients_,
                    training_.is_bfloat16);
      update(step);
      write_tensors(formatted("{}/weights/step-{}/model.safetensors", folder, step), weights_);
    }
    write_file(folder + "/metrics.jsonl", metrics);
  }

 private:
  static std::string layer_name(int layer) { return formatted("layers.{}.weight", layer); }

  void add(const std::string& name, int rows, double size) {
    SmallTensor tensor{{rows, kWidth}, Values(static_cast<std::size_t>(rows * kWidth))};
    std::normal_distribution<double> normal(0, size);
    for (float& value : tensor.values) value = rounded(static_cast<float>(normal(draw_)));
    weights_[name] = tensor;
    moments_[name] = {Values(tensor.values.size()), Values(tensor.values.size())};
  }

  float rounded(float value) const { return training_.is_bfloat16 ? bfloat16_of(value) : value; }

  // Sums `count` terms in the order of this run, in float32. With bfloat16 the sum of each quarter
  // is rounded, as ranks that share a layer round what they send.
  template <typename Term>
  float sum(int count, const Term& term) const {
    float total = 0, part = 0;
    int done = 0;
    for (const int i : orders_.at(count)) {
      part += term(i);
      if (++done % (count / 4) != 0) continue;
      total = rounded(total + rounded(part));
      part = 0;
    }
    return total;
  }

  static float at(const Values& matrix, int row, int column) {
    return matrix[static_cast<std::size_t>(row * kWidth + column)];
  }

  // Adds the gradients of a microbatch to `sums`, and returns the sum of its losses.
  float microbatch(const std::vector<int>& tokens, std::map<std::string, Values>& sums) const {
    const int shift = training_.bug == PlantedBug::kLabelsShiftedTwice ? 2 : 1;
    std::vector<std::vector<Values>> hidden(kTokens), slopes(kTokens);
    std::vector<Values> of_logits(kTokens), of_hidden(kTokens);
    Values losses(kTokens);
    const Values& embedding = weights_.at("embedding.weight").values;
    const Values& head = weights_.at("head.weight").values;
    for (int t = 0; t < kTokens; ++t) {
      const auto row = embedding.begin() + tokens[static_cast<std::size_t>(t)] * kWidth;
      hidden[t].emplace_back(row, row + kWidth);
      for (int layer = 0; layer < kLayers; ++layer) {
        const Values& weight = weights_.at(layer_name(layer)).values;
        Values next = hidden[t].back(), slope(kWidth);
        for (int i = 0; i < kWidth; ++i) {
          const float value = rounded(std::tanh(
              sum(kWidth, [&](int j) { return at(weight, i, j) * hidden[t].back()[j]; })));
          slope[i] = rounded(1 - value * value);
          next[i] = rounded(next[i] + value);
        }
        slopes[t].push_back(slope);
        hidden[t].push_back(next);
      }
      Values logits(kVocabulary), powers(kVocabulary);
      for (int v = 0; v < kVocabulary; ++v)
        logits[v] = sum(kWidth, [&](int j) { return at(head, v, j) * hidden[t].back()[j]; });
      const float largest = *std::max_element(logits.begin(), logits.end());
      for (int v = 0; v < kVocabulary; ++v) powers[v] = std::exp(logits[v] - largest);
      float total = 0;
      for (const int v : orders_.at(kVocabulary)) total += powers[v];
      const int label = tokens[static_cast<std::size_t>(t + shift)];
      losses[t] = std::log(total) + largest - logits[label];
      of_logits[t].resize(kVocabulary);
      for (int v = 0; v < kVocabulary; ++v)
        of_logits[t][v] = rounded(powers[v] / total - (v == label ? 1.0f : 0.0f));
    }
    const auto add_product = [&](const std::string& name, int rows, const auto& out,
                                 const auto& in) {
      Values& sum_of = sums[name];
      sum_of.resize(static_cast<std::size_t>(rows * kWidth));
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < kWidth; ++j)
          sum_of[i * kWidth + j] += sum(kTokens, [&](int t) { return out(t)[i] * in(t)[j]; });
      }
    };
    add_product(
        "head.weight", kVocabulary, [&](int t) -> const Values& { return of_logits[t]; },
        [&](int t) -> const Values& { return hidden[t].back(); });
    for (int t = 0; t < kTokens; ++t) {
      of_hidden[t].resize(kWidth);
      for (int j = 0; j < kWidth; ++j) {
        of_hidden[t][j] = sum(kVocabulary, [&](int v) { return of_logits[t][v] * at(head, v, j); });
      }
    }
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      std::vector<Values> inner(kTokens, Values(kWidth));
      for (int t = 0; t < kTokens; ++t)
        for (int i = 0; i < kWidth; ++i)
          inner[t][i] = rounded(of_hidden[t][i] * slopes[t][layer][i]);
      add_product(
          layer_name(layer), kWidth, [&](int t) -> const Values& { return inner[t]; },
          [&](int t) -> const Values& { return hidden[t][layer]; });
      const Values& weight = weights_.at(layer_name(layer)).values;
      for (int t = 0; t < kTokens; ++t) {
        Values before = of_hidden[t];
        for (int j = 0; j < kWidth; ++j) {
          before[j] = rounded(before[j] +
                              sum(kWidth, [&](int i) { return inner[t][i] * at(weight, i, j); }));
        }
        of_hidden[t] = before;
      }
    }
    Values& of_embedding = sums["embedding.weight"];
    of_embedding.resize(embedding.size());
    for (const int t : orders_.at(kTokens))
      for (int j = 0; j < kWidth; ++j)
        of_embedding[tokens[static_cast<std::size_t>(t)] * kWidth + j] += of_hidden[t][j];
    // As with mixed precision, losses are float32.
    float loss = 0;
    for (const int t : orders_.at(kTokens)) loss += losses[t];
    return loss;
  }

  // Fills gradients_ with the mean over the tokens, and returns the mean loss.
  double gradients_of_step() {
    std::vector<std::vector<int>> microbatches(kMicrobatches);
    // Each token tends to follow from the one before, so that there is something to learn.
    std::uniform_int_distribution<int> step(1, 3);
    for (std::vector<int>& tokens : microbatches) {
      tokens.push_back(static_cast<int>(draw_() % kVocabulary));
      while (tokens.size() < kTokens + 2)
        tokens.push_back((tokens.back() * 5 + step(draw_)) % kVocabulary);
    }
    std::vector<std::map<std::string, Values>> parts(kMicrobatches);
    Values losses(kMicrobatches);
    for (int m = 0; m < kMicrobatches; ++m)
      losses[static_cast<std::size_t>(m)] = microbatch(microbatches[m], parts[m]);
    const int per_replica = kMicrobatches / training_.degree;
    const auto counts = [&](int m) {
      if (training_.bug == PlantedBug::kDroppedReduction) return m < per_replica;
      return training_.bug != PlantedBug::kMissingMicrobatch || m != 3;
    };
    float divisor = kMicrobatches * kTokens;
    if (training_.bug == PlantedBug::kWrongDivisor)
      divisor = static_cast<float>(per_replica * kTokens);
    const int scaled = static_cast<int>(training_.seed % kLayers);
    for (const auto& [name, weight] : weights_) {
      SmallTensor& gradient = gradients_[name];
      gradient = weight;
      const bool is_scaled =
          training_.bug == PlantedBug::kScaledLayer && name == layer_name(scaled);
      for (std::size_t i = 0; i < gradient.values.size(); ++i) {
        const float total = sum(kMicrobatches, [&, &name = name](int m) {
          return counts(m) ? parts[m].at(name)[i] : 0;
        });
        gradient.values[i] =
            rounded(total / divisor * static_cast<float>(is_scaled ? training_.degree : 1));
      }
    }
    float loss = 0;
    for (const int m : orders_.at(kMicrobatches))
      if (training_.bug != PlantedBug::kMissingMicrobatch || m != 3)
        loss += losses[static_cast<std::size_t>(m)];
    return double{loss} / (kMicrobatches * kTokens);
  }

  void update(int step) {
    for (auto& [name, weight] : weights_) {
      const Values& gradient = gradients_.at(name).values;
      auto& [first, second] = moments_.at(name);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        if (!training_.uses_adamw) {
          weight.values[i] -= 0.1f * gradient[i];
          continue;
        }
        first[i] = 0.9f * first[i] + 0.1f * gradient[i];
        second[i] = 0.95f * second[i] + 0.05f * gradient[i] * gradient[i];
        const auto root = std::sqrt(second[i] / (1 - std::pow(0.95f, static_cast<float>(step))));
        weight.values[i] -=
            1e-3f * first[i] / (1 - std::pow(0.9f, static_cast<float>(step))) / (root + 1e-8f);
      }
    }
  }

  SmallTraining training_;
  std::mt19937_64 draw_;
  std::map<std::string, SmallTensor> weights_, gradients_;
  std::map<std::string, std::pair<Values, Values>> moments_;
  std::map<int, std::vector<int>> orders_;  // number of terms -> their order
};

}  // namespace

void write_tensors(const std::string& path, const std::map<std::string, SmallTensor>& tensors,
                   bool is_bfloat16) {
  SafetensorsHeader header;
  for (const auto& [name, tensor] : tensors)
    header.entries.push_back({name, is_bfloat16 ? "BF16" : "F32", tensor.shape});
  lay_out(header);
  const std::string json = to_json(header);
  std::string bytes;
  const auto length = static_cast<std::uint64_t>(json.size());
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  bytes += json;
  for (const SafetensorsEntry& entry : header.entries) {
    for (const float value : tensors.at(entry.name).values) {
      const auto bits = std::bit_cast<std::uint32_t>(is_bfloat16 ? bfloat16_of(value) : value);
      for (int i = is_bfloat16 ? 2 : 0; i < 4; ++i)
        bytes += static_cast<char>(bits >> (8 * i) & 0xff);
    }
  }
  write_file(path, bytes);
}

void train_small_model(const SmallTraining& training, const std::string& folder) {
  SmallModel(training).train(folder);
}

}  // namespace sluice::test
