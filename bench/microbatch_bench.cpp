// Measures forward and backward of one microbatch of a whole Llama on one thread: with fused
// operators, with LibTorch's operators, and with only its matrix products and attention (the
// bound). They take turns, because machines are noisy. Prints the minimum and the median of each in
// milliseconds.
//
//   bench/microbatch_bench [rounds]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "layer/initialize_chunks.h"
#include "sluice/causal_lm.h"
#include "sluice/model_spec.h"
#include "sluice/parts/chunk.h"
#include "sluice/parts/stage.h"

namespace sluice {
namespace {

struct Size {
  const char* name;
  std::int64_t hidden, layers, heads, key_value_heads, inner, vocabulary, length;
};
constexpr Size kSizes[] = {{"S", 256, 8, 8, 4, 688, 4096, 256},
                           {"M", 768, 12, 12, 4, 2048, 8192, 512}};

ModelSpec spec_of(const Size& size) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  return parse_model_spec(
      R"({"model_type": "llama", "tie_word_embeddings": false, "vocab_size": )" +
          text(size.vocabulary) + R"(, "hidden_size": )" + text(size.hidden) +
          R"(, "intermediate_size": )" + text(size.inner) + R"(, "num_hidden_layers": )" +
          text(size.layers) + R"(, "num_attention_heads": )" + text(size.heads) +
          R"(, "num_key_value_heads": )" + text(size.key_value_heads) + "}",
      size.name);
}

class Whole {
 public:
  Whole(const Size& size, bool fused)
      : model_(causal_lm(spec_of(size), {.fused = fused})),
        stage_(0, Chunk(model_.layers, 0, {}, model_.outputs)) {
    initialize_parameters(stage_.chunk(), 1);
    const at::Tensor ids =
        (at::arange(size.length, at::kLong) * 37).remainder(size.vocabulary).view({1, -1});
    batch_ = {{"input_ids", ids}, {"labels", ids}};
    for (const std::string& name : model_.optional_inputs) batch_.set(name, {});
  }

  void run() {
    const MicrobatchKey key{1, 1, microbatch_};
    Values outputs = stage_.forward(key, {}, batch_);
    const at::Tensor loss = model_.loss(outputs, batch_).loss;
    outputs = {};
    stage_.keep(microbatch_, {loss});
    stage_.backward(microbatch_, {at::ones({}) / 256});
    ++microbatch_;
  }

 private:
  Model model_;
  Stage stage_;
  Values batch_;
  std::int64_t microbatch_ = 0;
};

// Matrix products into existing memory, and attention with its backward.
class Bound {
 public:
  explicit Bound(const Size& s) : size_(s) {
    const std::int64_t e = s.hidden / s.heads, k = s.key_value_heads * e;
    for (std::int64_t i = 0; i < s.layers; ++i) {
      for (const auto& [out, in] : {std::pair{s.hidden, s.hidden},
                                    {k, s.hidden},
                                    {k, s.hidden},
                                    {s.hidden, s.hidden},
                                    {s.inner, s.hidden},
                                    {s.inner, s.hidden},
                                    {s.hidden, s.inner}})
        add(out, in);
    }
    add(s.vocabulary, s.hidden);
    const auto heads = [&](std::int64_t count) {
      return at::randn({1, count, s.length, e}).requires_grad_();
    };
    for (std::int64_t i = 0; i < s.layers; ++i)
      attention_.push_back({heads(s.heads), heads(s.key_value_heads), heads(s.key_value_heads)});
    gradient_ = at::randn({1, s.heads, s.length, e});
  }

  void run() {
    {
      const at::NoGradGuard no_graph;
      for (Product& p : products_) {
        at::mm_out(p.y, p.x, p.w.t());
        at::mm_out(p.dx, p.dy, p.w);
        at::mm_out(p.dw, p.dy.t(), p.x);
      }
    }
    for (auto& [q, k, v] : attention_) {
      at::scaled_dot_product_attention(q, k, v, {}, 0.0, true, std::nullopt, true)
          .backward(gradient_);
      for (const at::Tensor& t : {q, k, v}) t.mutable_grad().reset();
    }
  }

 private:
  struct Product {
    at::Tensor w, x, y, dx, dy, dw;
  };
  void add(std::int64_t out, std::int64_t in) {
    products_.push_back({at::randn({out, in}), at::randn({size_.length, in}),
                         at::empty({size_.length, out}), at::empty({size_.length, in}),
                         at::randn({size_.length, out}), at::empty({out, in})});
  }

  Size size_;
  std::vector<Product> products_;
  std::vector<std::array<at::Tensor, 3>> attention_;
  at::Tensor gradient_;
};

void race(const Size& size, int rounds) {
  Whole fused(size, true), plain(size, false);
  Bound bound(size);
  const std::vector<std::pair<const char*, std::function<void()>>> runners = {
      {"fused", [&] { fused.run(); }}, {"plain", [&] { plain.run(); }}, {"bound", [&] {
                                                                           bound.run();
                                                                         }}};
  std::vector<std::vector<double>> ms(runners.size());
  for (int round = 0; round < rounds + 2; ++round) {
    for (std::size_t i = 0; i < runners.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      runners[i].second();
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      if (round >= 2) ms[i].push_back(took.count());
    }
  }
  for (auto& times : ms) std::sort(times.begin(), times.end());
  for (std::size_t i = 0; i < runners.size(); ++i) {
    std::printf("%s %-6s least %8.2f  median %8.2f ms   %.3f of the bound\n", size.name,
                runners[i].first, ms[i].front(), ms[i][ms[i].size() / 2],
                ms[i].front() / ms[2].front());
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  at::set_num_threads(1);
  at::get_num_threads();
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  for (const sluice::Size& size : sluice::kSizes) sluice::race(size, rounds);
}
