// Compares attention with float64. An output is a mean of values weighted by probabilities, each a
// few units in the last place off. So 1e-6 of the largest value is enough for any length here.
// Gradients sum differences that cancel, so they need 5e-6.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

struct Case {
  Index length = 1, group = 1, head_dim = 16;
  float cap = 0;
  std::vector<std::int32_t> first_key = {};
  float scale_of_scores = 1;  // times 1 / sqrt(head_dim)
  Index gap = 0;              // unused floats between the parts of a row
  // rows of keys and values have another stride than rows of queries
  bool rows_of_their_own = false;
};

struct Inputs {
  Index row_stride, kv_stride, out_stride;
  std::vector<float> q, k, v, d_out;
};

Inputs inputs_of(const Case& c, float size = 1) {
  const Index row = (c.group + 2) * c.head_dim + c.gap, out = c.group * c.head_dim + c.gap;
  const Index kv = c.rows_of_their_own ? c.head_dim + c.gap : row;
  const auto rows = [&](Index stride, Index width, unsigned seed) {
    return random_floats((c.length - 1) * stride + width, seed, size);
  };
  return {row,
          kv,
          out,
          rows(row, c.group * c.head_dim, 1),
          rows(kv, c.head_dim, 2),
          rows(kv, c.head_dim, 3),
          rows(out, c.group * c.head_dim, 4)};
}

struct Results {
  std::vector<float> out, log_sums, dq, dk, dv;
};

Results attention_of(const Kernels& kernels, const Case& c, const Inputs& in,
                     Place place = Place::kEnd) {
  Memory q(in.q, place), k(in.k, place), v(in.v, place), d_out(in.d_out, place);
  const auto nothing = [](const std::vector<float>& like) {
    return std::vector<float>(like.size(), 7.0f);
  };
  Memory out(nothing(in.d_out), place), dq(nothing(in.q), place), dk(nothing(in.k), place),
      dv(nothing(in.v), place), log_sums(static_cast<std::size_t>(c.group * c.length), place);
  Memory scratch(
      std::vector<float>(static_cast<std::size_t>(kernels.attention_scratch(c.length, c.head_dim)),
                         NAN),
      place);
  AttentionCall call;
  call.length = c.length;
  call.group = c.group;
  call.head_dim = c.head_dim;
  call.q = q.data();
  call.k = k.data();
  call.v = v.data();
  call.row_stride = in.row_stride;
  if (c.rows_of_their_own) call.kv_stride = in.kv_stride;
  call.out = out.data();
  call.out_stride = in.out_stride;
  call.log_sums = log_sums.data();
  call.scale = c.scale_of_scores / std::sqrt(static_cast<float>(c.head_dim));
  call.cap = c.cap;
  call.first_key = c.first_key.empty() ? nullptr : c.first_key.data();
  call.scratch = scratch.data();
  kernels.attention(call);
  AttentionGradientCall gradient;
  gradient.forward = call;
  gradient.d_out = d_out.data();
  gradient.dq = dq.data();
  gradient.dk = dk.data();
  gradient.dv = dv.data();
  kernels.attention_gradient(gradient);
  return {out.values(), log_sums.values(), dq.values(), dk.values(), dv.values()};
}

struct Exact {
  std::vector<double> out, log_sums, dq, dk, dv;
};

Exact reference(const Case& c, const Inputs& in) {
  Exact exact;
  exact.out.assign(in.d_out.size(), 7.0);  // a marker for memory that kernels must not write
  exact.dq.assign(in.q.size(), 7.0);
  exact.dk.assign(in.k.size(), 7.0);
  exact.dv.assign(in.v.size(), 7.0);
  exact.log_sums.resize(static_cast<std::size_t>(c.group * c.length));
  const double scale = c.scale_of_scores / std::sqrt(static_cast<double>(c.head_dim));
  for (Index l = 0; l < c.length; ++l) {
    for (Index e = 0; e < c.head_dim; ++e) {
      exact.dk[l * in.kv_stride + e] = exact.dv[l * in.kv_stride + e] = 0;
      for (Index h = 0; h < c.group; ++h) {
        exact.dq[l * in.row_stride + h * c.head_dim + e] = 0;
        exact.out[l * in.out_stride + h * c.head_dim + e] = 0;
      }
    }
  }
  std::vector<double> p(static_cast<std::size_t>(c.length)), slope(p), dp(p);
  for (Index h = 0; h < c.group; ++h) {
    for (Index r = 0; r < c.length; ++r) {
      const Index first = c.first_key.empty() ? 0 : c.first_key[r];
      const float* const q = &in.q[r * in.row_stride + h * c.head_dim];
      const float* const d = &in.d_out[r * in.out_stride + h * c.head_dim];
      double top = -INFINITY, total = 0, delta = 0;
      for (Index j = first; j <= r; ++j) {
        double s = 0;
        for (Index e = 0; e < c.head_dim; ++e)
          s += static_cast<double>(q[e]) * in.k[j * in.kv_stride + e];
        s *= scale;
        const double t = c.cap > 0 ? std::tanh(s / c.cap) : 0;
        slope[j] = 1 - t * t;
        p[j] = c.cap > 0 ? c.cap * t : s;
        top = std::max(top, p[j]);
      }
      for (Index j = first; j <= r; ++j) total += p[j] = std::exp(p[j] - top);
      exact.log_sums[h * c.length + r] = top + std::log(total);
      for (Index j = first; j <= r; ++j) {
        p[j] /= total;
        dp[j] = 0;
        for (Index e = 0; e < c.head_dim; ++e) {
          const double value = in.v[j * in.kv_stride + e];
          exact.out[r * in.out_stride + h * c.head_dim + e] += p[j] * value;
          exact.dv[j * in.kv_stride + e] += p[j] * d[e];
          dp[j] += d[e] * value;
        }
        delta += p[j] * dp[j];
      }
      for (Index j = first; j <= r; ++j) {
        const double ds = p[j] * (dp[j] - delta) * slope[j] * scale;
        for (Index e = 0; e < c.head_dim; ++e) {
          exact.dq[r * in.row_stride + h * c.head_dim + e] += ds * in.k[j * in.kv_stride + e];
          exact.dk[j * in.kv_stride + e] += ds * q[e];
        }
      }
    }
  }
  return exact;
}

void expect_near(const Kernels& kernels, const Case& c, const Inputs& in) {
  const Results found = attention_of(kernels, c, in);
  const Exact exact = reference(c, in);
  const std::string what = "length " + std::to_string(c.length) + ", group " +
                           std::to_string(c.group) + ", head " + std::to_string(c.head_dim);
  EXPECT_LT(distance(found.out, exact.out), 3e-6) << what;
  EXPECT_LT(distance(found.log_sums, exact.log_sums), 2e-6) << what;
  EXPECT_LT(distance(found.dq, exact.dq), 5e-6) << what;
  EXPECT_LT(distance(found.dk, exact.dk), 5e-6) << what;
  EXPECT_LT(distance(found.dv, exact.dv), 5e-6) << what;
}

void expect_near(const Kernels& kernels, const Case& c) { expect_near(kernels, c, inputs_of(c)); }

std::vector<std::int32_t> window_of(Index length, Index window) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(length));
  for (Index r = 0; r < length; ++r)
    first[static_cast<std::size_t>(r)] =
        static_cast<std::int32_t>(std::max<Index>(0, r - window + 1));
  return first;
}

std::vector<std::int32_t> documents_of(Index length, const std::vector<Index>& begins) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(length), 0);
  for (const Index begin : begins) {
    for (Index r = begin; r < length; ++r)
      first[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(begin);
  }
  return first;
}

using AttentionKernelTest = KernelTest;
TEST_P(AttentionKernelTest, AKeyOrValueThatIsNotFiniteReachesNoQueryInFrontOfIt) {
  for (const Case& c : {Case{.length = 100, .group = 2}, Case{.length = 300, .head_dim = 64}}) {
    const Inputs clean = inputs_of(c);
    const Results expected = attention_of(kernels_, c, clean);
    for (const float value : {NAN, INFINITY}) {
      for (std::vector<float> Inputs::*const rows : {&Inputs::k, &Inputs::v}) {
        for (const Index place : {Index{1}, Index{61}, c.length - 1}) {
          Inputs in = clean;
          (in.*rows)[place * in.kv_stride + 3] = value;
          const Results found = attention_of(kernels_, c, in);
          const auto in_front = [&](const std::vector<float>& all, Index stride) {
            return std::vector<float>(all.begin(), all.begin() + place * stride);
          };
          EXPECT_TRUE(
              same_bits(in_front(found.out, in.out_stride), in_front(expected.out, in.out_stride)));
          EXPECT_TRUE(
              same_bits(in_front(found.dq, in.row_stride), in_front(expected.dq, in.row_stride)));
          EXPECT_TRUE(same_bits(in_front(found.log_sums, 1), in_front(expected.log_sums, 1)));
          // a score of -infinity has probability 0
          if (std::isinf(value) && rows == &Inputs::k) continue;
          const auto of_place = found.out.begin() + place * in.out_stride;
          EXPECT_TRUE(std::any_of(of_place, of_place + c.group * c.head_dim,
                                  [](float x) { return !std::isfinite(x); }));
        }
      }
    }
  }
}

SLUICE_AT_EVERY_LEVEL(AttentionKernelTest);

TEST_P(AttentionKernelTest, IsNearFloat64AtEveryLength) {
  for (const Index length : {1, 2, 15, 16, 17, 47, 48, 49, 50, 63, 64, 65, 100, 130, 256, 333})
    expect_near(kernels_, {.length = length, .group = 2, .head_dim = 32});
  expect_near(kernels_, {.length = 1000, .group = 1, .head_dim = 32});
}

TEST_P(AttentionKernelTest, IsNearFloat64AtEveryHeadSizeAndGroup) {
  for (Index head_dim = 16; head_dim <= 256; head_dim += 16)
    expect_near(kernels_, {.length = 101, .group = 1 + head_dim / 16 % 4, .head_dim = head_dim});
  for (const Index head_dim : {400, 512, 1024})
    expect_near(kernels_, {.length = 101, .group = 1, .head_dim = head_dim});
}

TEST_P(AttentionKernelTest, KeepsKeysInSeveralBlocks) {
  // A block has 1,024 keys in the forward, and 64 in the gradient of heads of 256 channels.
  expect_near(kernels_, {.length = 1200, .group = 1, .head_dim = 16});
  expect_near(kernels_, {.length = 333, .group = 2, .head_dim = 256});
  expect_near(kernels_, {.length = 2100, .group = 1, .head_dim = 32});
}

TEST_P(AttentionKernelTest, ScalesWhatWasAddedWhenALaterBlockHasALargerScore) {
  const Case c = {.length = 2100, .group = 1, .head_dim = 16};
  Inputs in = inputs_of(c);
  for (Index l = 0; l < c.length; ++l) {
    for (Index e = 0; e < c.head_dim; ++e)
      in.k[l * in.kv_stride + e] *= static_cast<float>(l) / 700.0f;
  }
  expect_near(kernels_, c, in);
}

TEST_P(AttentionKernelTest, SeesAWindow) {
  for (const Index length : {40, 200, 333})
    for (const Index window : {1, 2, 17, 48, 64, 100})
      expect_near(
          kernels_,
          {.length = length, .group = 2, .head_dim = 32, .first_key = window_of(length, window)});
  expect_near(kernels_, {.length = 1500, .head_dim = 16, .first_key = window_of(1500, 300)});
  expect_near(kernels_, {.length = 400, .head_dim = 256, .first_key = window_of(400, 70)});
}

TEST_P(AttentionKernelTest, SeesOneDocument) {
  for (const auto& begins : {std::vector<Index>{1}, {16, 17, 40}, {48, 96}, {60, 130, 199}})
    expect_near(
        kernels_,
        {.length = 200, .group = 3, .head_dim = 48, .first_key = documents_of(200, begins)});
  expect_near(kernels_,
              {.length = 1300, .head_dim = 64, .first_key = documents_of(1300, {383, 385, 1025})});
}

TEST_P(AttentionKernelTest, CapsScores) {
  expect_near(kernels_, {.length = 150, .group = 2, .head_dim = 32, .cap = 50});
  expect_near(kernels_, {.length = 150, .group = 2, .head_dim = 32, .cap = 2});
  expect_near(kernels_, {.length = 150,
                         .group = 1,
                         .head_dim = 64,
                         .cap = 5,
                         .first_key = window_of(150, 33),
                         .scale_of_scores = 8});
}

TEST_P(AttentionKernelTest, LeavesWhatLiesBetweenRowsAlone) {
  for (const Index gap : {1, 7, 16})
    expect_near(kernels_, {.length = 70, .group = 2, .head_dim = 32, .gap = gap});
}

TEST_P(AttentionKernelTest, TakesKeysInRowsOfAnotherLengthThanThoseOfQueries) {
  for (const Index gap : {0, 5})
    expect_near(kernels_,
                {.length = 70, .group = 3, .head_dim = 32, .gap = gap, .rows_of_their_own = true});
}

TEST_P(AttentionKernelTest, HasTheSameBitsWhereverItsMemoryLies) {
  for (const Index length : {7, 130, 1100}) {
    const Case c = {.length = length, .group = 2, .head_dim = 48, .gap = 3};
    const Inputs in = inputs_of(c);
    const Results end = attention_of(kernels_, c, in, Place::kEnd);
    for (const Place place : {Place::kBegin, Place::kOdd}) {
      const Results other = attention_of(kernels_, c, in, place);
      EXPECT_TRUE(same_bits(end.out, other.out));
      EXPECT_TRUE(same_bits(end.log_sums, other.log_sums));
      EXPECT_TRUE(same_bits(end.dq, other.dq));
      EXPECT_TRUE(same_bits(end.dk, other.dk));
      EXPECT_TRUE(same_bits(end.dv, other.dv));
    }
  }
}

TEST_P(AttentionKernelTest, HasTheSameBitsForAQueryWhateverComesAfterIt) {
  const Case whole = {.length = 200, .group = 1, .head_dim = 32};
  const Inputs in = inputs_of(whole);
  const Results all = attention_of(kernels_, whole, in);
  Case part = whole;
  part.length = 101;
  const Results some = attention_of(kernels_, part, in);
  for (Index l = 0; l < part.length; ++l) {
    for (Index e = 0; e < 32; ++e)
      ASSERT_EQ(all.out[l * in.out_stride + e], some.out[l * in.out_stride + e]) << l;
  }
}

TEST_P(AttentionKernelTest, UnderflowsToZeroAndStaysFinite) {
  // Scores of several hundred: all probabilities but one are far below the smallest float.
  for (const float size : {10.0f, 30.0f}) {
    const Case c = {.length = 130, .group = 2, .head_dim = 32};
    const Inputs in = inputs_of(c, size);
    const Results found = attention_of(kernels_, c, in);
    const Exact exact = reference(c, in);
    // The last place of a score of 5,000 is 5e-4, so its probability has that relative error.
    EXPECT_LT(distance(found.out, exact.out), 1e-3);
    for (const auto* values : {&found.out, &found.dq, &found.dk, &found.dv})
      for (const float value : *values) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_P(AttentionKernelTest, HandsOnWhatIsNoNumber) {
  const Case c = {.length = 60, .group = 1, .head_dim = 16};
  Inputs in = inputs_of(c);
  in.k[30 * in.kv_stride] = NAN;
  const Results found = attention_of(kernels_, c, in);
  EXPECT_TRUE(std::isnan(found.out[59 * in.out_stride]));
  EXPECT_TRUE(std::isnan(found.log_sums[30]));
  EXPECT_FALSE(std::isnan(found.log_sums[29]));
}

}  // namespace
}  // namespace sluice::ops
