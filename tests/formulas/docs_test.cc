// The attentions of docs/formulas.md against their published definitions, written again here: values, and gradients
// against finite differences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "rapt/attend.h"
#include "rapt/formula.h"

namespace {

constexpr std::int64_t kHeads = 2, kDim = 4;
constexpr double kHidden = -HUGE_VAL;

struct Numbers {
  std::int64_t size = 1;  // of a head
  bool per_head = false;
  std::vector<double> data{};

  double at(std::int64_t head, std::int64_t n = 0) const {
    return data[static_cast<std::size_t>((per_head ? head * size : 0) + n)];
  }
};

// A pair of one head: where it stands, its product over √Dk, and the parameters.
struct Pair {
  std::int64_t i = 0, j = 0, head = 0;
  double scaled = 0;
  const std::map<std::string, Numbers>* parameters = nullptr;

  double number(const char* name) const { return parameters->at(name).at(head); }
  double number(const char* name, std::int64_t n) const { return parameters->at(name).at(head, n); }
  double distance() const { return std::fabs(static_cast<double>(i - j)); }
};

struct Published {
  std::function<double(const Pair&)> score;
  std::map<std::string, Numbers> parameters{};
  std::int64_t queries = 24, keys = 24, first_query = 0;
};

double causal(const Pair& p, double score) { return p.j <= p.i ? score : kHidden; }

// Press et al. 2022.
double alibi(const Pair& p) { return causal(p, p.scaled - p.number("m") * p.distance()); }

// Raffel et al. 2020: half of the buckets for keys after the query; of each half the first 8 are exact, the others grow by
// powers of √2 up to a distance of 128.
double t5(const Pair& p) {
  const std::int64_t distance = std::abs(p.j - p.i);
  std::int64_t bucket = distance;
  if (distance >= 8)
    for (bucket = 8; bucket < 15 && distance * distance >= 64 * (std::int64_t{2} << (bucket - 8));) ++bucket;
  return p.scaled + p.number("table", (p.j > p.i ? 16 : 0) + bucket);
}

// Chi et al. 2022, Kerple.
double kerple_log(const Pair& p) {
  return causal(p, p.scaled - p.number("a") * std::log1p(p.number("b") * p.distance()));
}
double kerple_power(const Pair& p) {
  return causal(p, p.scaled - p.number("a") * std::pow(p.distance(), p.number("p")));
}

// Chi et al. 2023: the product of two sinusoidal encodings of size 8.
double sandwich(const Pair& p) {
  double sum = 0;
  for (int n = 0; n < 4; ++n) {
    const double wave = std::pow(10000, 2.0 * n / 8), x = static_cast<double>(p.i) / wave,
                 y = static_cast<double>(p.j) / wave;
    sum += std::sin(x) * std::sin(y) + std::cos(x) * std::cos(y);
  }
  return causal(p, p.scaled + sum);
}

// Li et al. 2024: ψ(i−j) ÷ ψ(max(i, L)), ψ(x) = log(1 + cx); the network is a step function of 32 values.
double fire(const Pair& p) {
  if (p.j > p.i) return kHidden;
  const auto psi = [&](double x) { return std::log(1 + p.number("c") * x); };
  const double place = psi(p.distance()) / psi(std::fmax(static_cast<double>(p.i), p.number("L")));
  return p.scaled + p.number("f", static_cast<std::int64_t>(31 * place));
}

// Team Gemma 2024.
double gemma(const Pair& p) { return causal(p, 50 * std::tanh(p.scaled / 50)); }

// Xiao et al. 2024: the last 1024 keys and the first four.
double sinks(const Pair& p) { return p.j < 4 || p.j > p.i - 1024 ? causal(p, p.scaled) : kHidden; }

double documents(const Pair& p) {
  return p.number("document", p.i) == p.number("document", p.j) ? causal(p, p.scaled) : kHidden;
}

// Bello et al. 2017.
double pointer(const Pair& p) { return 10 * std::tanh(p.scaled); }

double gaussian(const Pair& p) {
  const double x = p.distance() / p.number("sigma");
  return p.scaled - x * x / 2;
}

// By the first words of its row on the page.
std::map<std::string, Published> definitions() {
  const Numbers one{}, each{1, true, {}};
  std::map<std::string, Published> list;
  list["ALiBi"] = {alibi, {{"m", each}}};
  list["T5, 32 buckets"] = {t5, {{"table", {32, true, {}}}}, 6, 320, 160};
  list["KERPLE, logarithmic"] = {kerple_log, {{"a", each}, {"b", each}}};
  list["KERPLE, power"] = {kerple_power, {{"a", each}, {"p", each}}};
  list["Sandwich, four frequencies"] = {sandwich};
  list["FIRE, its network"] = {fire, {{"f", {32, true, {}}}, {"c", each}, {"L", {1, false, {9.5}}}}};
  list["soft capping of logits"] = {gemma};
  list["sliding window with"] = {sinks, {}, 5, 1050, 1040};
  list["documents packed"] = {documents, {{"document", {24, false, {}}}}};
  list["clipped scores"] = {pointer};
  list["Gaussian window"] = {gaussian, {{"sigma", {1, false, {3.5}}}}};
  for (int n = 0; n < 24; ++n)
    list["documents packed"].parameters["document"].data.push_back(n < 5 ? 3 : (n < 16 ? 1 : 7));
  return list;
}

struct Toy {
  Published what;
  std::vector<double> q, k, v, grad_out;

  explicit Toy(Published published) : what(std::move(published)) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<double>& x, std::int64_t count) {
      for (std::int64_t n = 0; n < count; ++n) x.push_back(normal(random));
    };
    fill(q, kHeads * what.queries * kDim);
    fill(k, kHeads * what.keys * kDim);
    fill(v, kHeads * what.keys * kDim);
    fill(grad_out, kHeads * what.queries * kDim);
    std::uniform_real_distribution<double> positive(0.2, 0.9);
    for (auto& [name, p] : what.parameters)
      if (p.data.empty())
        for (std::int64_t n = 0; n < p.size * (p.per_head ? kHeads : 1); ++n) p.data.push_back(positive(random));
  }

  std::vector<double> attend() const {
    std::vector<double> out;
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t i = 0; i < what.queries; ++i) {
        double total = 0, sum[kDim] = {};
        for (std::int64_t j = 0; j < what.keys; ++j) {
          Pair p{i + what.first_query, j, h, 0, &what.parameters};
          for (std::int64_t d = 0; d < kDim; ++d)
            p.scaled += q[static_cast<std::size_t>((h * what.queries + i) * kDim + d)] *
                        k[static_cast<std::size_t>((h * what.keys + j) * kDim + d)] /
                        std::sqrt(static_cast<double>(kDim));
          const double weight = std::exp(what.score(p));
          total += weight;
          for (std::int64_t d = 0; d < kDim; ++d)
            sum[d] += weight * v[static_cast<std::size_t>((h * what.keys + j) * kDim + d)];
        }
        for (const double x : sum) out.push_back(x / total);
      }
    return out;
  }

  double slope(double* x) {
    const double kept = *x, step = 1e-5;
    const auto loss = [&](double at) {
      *x = at;
      const std::vector<double> out = attend();
      double sum = 0;
      for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * grad_out[n];
      return sum;
    };
    const double above = loss(kept + step), below = loss(kept - step);
    *x = kept;
    return (above - below) / (2 * step);
  }

  void compare_slopes(std::vector<double>& at, const std::vector<double>& got, const std::string& name) {
    ASSERT_EQ(at.size(), got.size());
    const std::size_t stride = at.size() > 600 ? 151 : 7;
    for (std::size_t n = 0; n < at.size(); n += at.size() < 80 ? 1 : stride) {
      const double expected = slope(&at[n]);
      ASSERT_NEAR(got[n], expected, 1e-7 * (1 + std::fabs(expected))) << name << "[" << n << "]";
    }
  }

  void check(const std::string& score, const std::string& visible) {
    rapt::AttendOptions options;
    options.score = rapt::formula(score, {.visible = visible});
    options.first_query = {what.first_query};
    rapt::Gradients gradients;
    std::map<std::string, std::vector<double>> slopes;
    std::set<std::string> names;
    for (const rapt::ParameterSpec& spec : options.score.mechanism->parameters()) {
      const std::string name(spec.name);
      names.insert(name);
      ASSERT_TRUE(what.parameters.contains(name)) << name;
      Numbers& p = what.parameters[name];
      slopes[name].assign(p.data.size(), -77);
      const std::vector<std::int64_t> shape =
          p.per_head && p.size > 1 ? std::vector{kHeads, p.size} : std::vector{p.per_head ? kHeads : p.size};
      options.score.parameters.push_back({name, rapt::view(static_cast<const double*>(p.data.data()), shape)});
      gradients.parameters.push_back({name, rapt::view(slopes[name].data(), shape)});
    }
    ASSERT_EQ(names.size(), what.parameters.size());
    std::vector<double> out(grad_out.size()), dq(q.size()), dk(k.size()), dv(v.size());
    const rapt::Shape rows{1, kHeads, what.queries, kDim}, keys{1, kHeads, what.keys, kDim};
    const auto in = [](const std::vector<double>& x, const rapt::Shape& shape) { return rapt::view(x.data(), shape); };
    rapt::Outputs outputs;
    outputs.out = {rapt::view(out.data(), rows)};
    gradients.q = rapt::view(dq.data(), rows);
    gradients.k = rapt::view(dk.data(), keys);
    gradients.v = {rapt::view(dv.data(), keys)};
    const rapt::Inputs inputs{in(q, rows), in(k, keys), {in(v, keys)}};
    rapt::attend(inputs, outputs, options);
    rapt::attend_backward(inputs, {in(out, rows)}, {in(grad_out, rows)}, nullptr, gradients, options);
    const std::vector<double> expected = attend();
    for (std::size_t n = 0; n < out.size(); ++n) ASSERT_NEAR(out[n], expected[n], 1e-12) << "out[" << n << "]";
    compare_slopes(q, dq, "q");
    compare_slopes(k, dk, "k");
    compare_slopes(v, dv, "v");
    for (auto& [name, p] : what.parameters) compare_slopes(p.data, slopes[name], name);
  }
};

// The text between backticks in a cell of a table.
std::string code_of(const std::string& cell) {
  const std::size_t first = cell.find('`'), last = cell.rfind('`');
  return first == std::string::npos ? "" : cell.substr(first + 1, last - first - 1);
}

TEST(DocumentedFormulas, AreWhatWasPublished) {
  std::ifstream page(std::string(RAPT_SOURCE_DIR) + "/docs/formulas.md");
  ASSERT_TRUE(page);
  const std::map<std::string, Published> known = definitions();
  std::set<std::string> checked;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line.starts_with("## Published");
    if (!inside || !line.starts_with("| ") || line.starts_with("| |") || line.starts_with("| ---")) continue;
    SCOPED_TRACE(line);
    const std::size_t second = line.find(" | "), third = line.find(" | ", second + 3);
    ASSERT_NE(third, std::string::npos);
    const auto entry = std::ranges::find_if(known, [&](const auto& one) { return line.starts_with("| " + one.first); });
    ASSERT_NE(entry, known.end()) << "a line without a definition in this test";
    checked.insert(entry->first);
    Toy(entry->second).check(code_of(line.substr(second, third - second)), code_of(line.substr(third)));
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(checked.size(), known.size());
  EXPECT_GE(checked.size(), 10u);
}

}  // namespace
