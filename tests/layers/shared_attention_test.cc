#include "layers/shared_attention.h"

#include <cmath>

#include <gtest/gtest.h>

#include "layers/attention_log.h"
#include "rapt/error.h"
#include "support/layers.h"

namespace rapt::layers::test {
namespace {

using std::int64_t;
using support::random_input;
using Rows = std::vector<std::vector<double>>;

SharedAttentionShape small_shape() {
  SharedAttentionShape shape;
  shape.score = choose_score("scaled_dot");
  shape.map_in = 4;
  shape.width = 6;
  shape.tasks = 3;
  shape.heads = 2;
  return shape;
}

// The layer by its definition, one picture, in plain loops.
class Definition {
 public:
  Definition(const Parameters& parameters, const std::vector<double>& values, SharedAttentionShape shape)
      : parameters_(parameters), values_(values), shape_(shape) {}

  std::vector<Rows> operator()(const Rows& from, const std::vector<Rows>& tasks) const {
    const auto heads = static_cast<std::size_t>(shape_.heads);
    const Rows q = linear(shape_.one_projection ? "query_key" : "query", from);
    const Rows k = shape_.one_projection ? q : linear("key", from);
    const std::size_t dim = q[0].size() / heads;
    std::vector<Rows> results = tasks;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const std::string own = std::to_string(t);
      const Rows v = linear(own + ".value", shape_.norm ? normed(own + ".norm", tasks[t]) : tasks[t]);
      const std::size_t value_dim = v[0].size() / heads;
      Rows joined(q.size(), std::vector<double>(v[0].size(), 0));
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < q.size(); ++i) {
          std::vector<double> p(k.size());
          double sum = 0;
          for (std::size_t j = 0; j < k.size(); ++j) {
            double s = 0;
            for (std::size_t d = 0; d < dim; ++d) s += q[i][h * dim + d] * k[j][h * dim + d];
            p[j] = visible(i, j) ? std::exp(s / std::sqrt(static_cast<double>(dim)) + bias(h, i, j)) : 0;
            sum += p[j];
          }
          for (std::size_t j = 0; j < k.size(); ++j)
            for (std::size_t d = 0; d < value_dim; ++d)
              joined[i][h * value_dim + d] += p[j] / sum * v[j][h * value_dim + d];
        }
      const Rows out = linear(own + ".out", joined);
      for (std::size_t i = 0; i < out.size(); ++i)
        for (std::size_t n = 0; n < out[i].size(); ++n) results[t][i][n] += out[i][n];
    }
    return results;
  }

 private:
  const double* find(const std::string& name, std::vector<int64_t>* sizes = nullptr) const {
    for (const Parameter& p : parameters_.list())
      if (p.name == "shared." + name) {
        if (sizes) *sizes = p.shape;
        return values_.data() + p.offset;
      }
    throw std::runtime_error(name);
  }
  Rows linear(const std::string& name, const Rows& x) const {
    std::vector<int64_t> sizes;
    const double* w = find(name + ".weight", &sizes);
    const double* b = find(name + ".bias");
    const auto out = static_cast<std::size_t>(sizes[1]);
    Rows y(x.size(), std::vector<double>(b, b + out));
    for (std::size_t r = 0; r < x.size(); ++r)
      for (std::size_t i = 0; i < x[r].size(); ++i)
        for (std::size_t o = 0; o < out; ++o) y[r][o] += x[r][i] * w[i * out + o];
    return y;
  }
  Rows normed(const std::string& name, Rows x) const {
    for (std::vector<double>& row : x) {
      double mean = 0;
      double square = 0;
      for (const double n : row) mean += n / static_cast<double>(row.size());
      for (const double n : row) square += (n - mean) * (n - mean) / static_cast<double>(row.size());
      for (std::size_t n = 0; n < row.size(); ++n)
        row[n] = (row[n] - mean) / std::sqrt(square + 1e-5) * find(name + ".gain")[n] + find(name + ".bias")[n];
    }
    return x;
  }
  int64_t side() const { return shape_.window > 0 ? shape_.window : shape_.grid.cols; }
  bool visible(std::size_t i, std::size_t j) const {
    if (shape_.window == 0) return true;
    const auto window_of = [&](std::size_t cell) {
      const auto n = static_cast<int64_t>(cell);
      return std::pair{n / shape_.grid.cols / shape_.window, n % shape_.grid.cols / shape_.window};
    };
    return window_of(i) == window_of(j);
  }
  double bias(std::size_t h, std::size_t i, std::size_t j) const {
    if (shape_.grid.cells() == 0) return 0;
    const int64_t cols = shape_.grid.cols;
    const int64_t rows_seen = shape_.window > 0 ? shape_.window : shape_.grid.rows;
    const auto down = static_cast<int64_t>(j) / cols - static_cast<int64_t>(i) / cols;
    const auto right = static_cast<int64_t>(j) % cols - static_cast<int64_t>(i) % cols;
    if (!visible(i, j)) return 0;
    return find("bias")[(static_cast<int64_t>(h) * (2 * rows_seen - 1) + down + rows_seen - 1) * (2 * side() - 1) +
                        right + side() - 1];
  }

  const Parameters& parameters_;
  const std::vector<double>& values_;
  SharedAttentionShape shape_;
};

Rows rows_of(const std::vector<double>& x, std::size_t width) {
  Rows rows;
  for (std::size_t n = 0; n < x.size(); n += width)
    rows.emplace_back(x.begin() + static_cast<std::ptrdiff_t>(n), x.begin() + static_cast<std::ptrdiff_t>(n + width));
  return rows;
}

std::vector<SharedAttentionShape> shapes() {
  std::vector<SharedAttentionShape> list(5, small_shape());
  list[1].one_projection = true;
  list[1].norm = false;
  list[2].grid = {2, 4};
  list[3].grid = {2, 4};
  list[3].window = 2;
  list[4].tasks = 1;
  list[4].hidden = 3;
  list[4].value_dim = 2;
  list[4].grid = {4, 2};
  return list;
}

TEST(SharedAttention, EqualsTheDefinition) {
  for (const SharedAttentionShape& shape : shapes()) {
    Parameters parameters;
    const SharedAttention layer(parameters, "shared", shape);
    Random random(3);
    const auto values = support::random_numbers(random, parameters.size());
    support::Held<double> from(random_input("from", {8, 1, shape.map_in}, random));
    std::vector<support::Held<double>> held;
    std::vector<Tensor<double>> tasks;
    std::vector<Rows> rows;
    for (int64_t t = 0; t < shape.tasks; ++t) held.emplace_back(random_input("x", {8, 1, shape.width}, random));
    for (auto& h : held) {
      tasks.push_back(h.tensor(false));
      rows.push_back(rows_of(h.values, static_cast<std::size_t>(shape.width)));
    }
    Tape<double> tape(false);
    Graph<double> graph(tape, parameters, values.data(), nullptr);
    const auto got = layer(graph, from.tensor(false), std::span<const Tensor<double>>(tasks));
    const auto want =
        Definition(parameters, values, shape)(rows_of(from.values, static_cast<std::size_t>(shape.map_in)), rows);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t t = 0; t < got.size(); ++t) {
      std::vector<double> flat;
      for (const auto& row : want[t]) flat.insert(flat.end(), row.begin(), row.end());
      support::expect_close(support::numbers_of(got[t]), flat, 1e-11, "task " + std::to_string(t));
    }
  }
}

TEST(SharedAttention, Gradients) {
  for (const SharedAttentionShape& shape : shapes()) {
    Parameters parameters;
    const SharedAttention layer(parameters, "shared", shape);
    Random random(4);
    std::vector<support::Input> inputs{random_input("from", {8, 2, shape.map_in}, random)};
    for (int64_t t = 0; t < shape.tasks; ++t)
      inputs.push_back(random_input("x" + std::to_string(t), {8, 2, shape.width}, random));
    support::check_layer(parameters, inputs, random, [&](auto& graph, const auto& x) {
      using T = std::decay_t<decltype(*x[0].data)>;
      return layer(graph, x[0], std::span<const Tensor<T>>(x).subspan(1, static_cast<std::size_t>(shape.tasks)));
    });
  }
}

// The map depends on its source only, not on the tasks' inputs.
TEST(SharedAttention, OneMapWhateverTheTasksHold) {
  SharedAttentionShape shape = small_shape();
  shape.grid = {2, 4};
  Parameters parameters;
  const SharedAttention layer(parameters, "shared", shape);
  Random random(5);
  const auto values = support::random_numbers(random, parameters.size());
  support::Held<double> from(random_input("from", {8, 1, 4}, random));
  std::vector<std::vector<double>> maps;
  AttentionLog<double> log;
  for (int round = 0; round < 2; ++round) {
    std::vector<support::Held<double>> held;
    for (int t = 0; t < 3; ++t) held.emplace_back(random_input("x", {8, 1, 6}, random));
    const std::vector<Tensor<double>> tasks{held[0].tensor(), held[1].tensor(), held[2].tensor()};
    Tape<double> tape(false);
    Graph<double> graph(tape, parameters, values.data(), nullptr);
    if (round == 1) graph.observe(log);
    layer(graph, from.tensor(false), std::span<const Tensor<double>>(tasks), maps.emplace_back(2 * 8 * 8).data());
  }
  EXPECT_EQ(maps[0], maps[1]);
  // The log knows the bias too.
  ASSERT_EQ(log.records().size(), 1U);
  std::vector<float> again(64);
  log.records()[0].weights(0, 1, 0, 8, again.data());
  for (std::size_t n = 0; n < 64; ++n) EXPECT_NEAR(again[n], maps[0][64 + n], 1e-6);
}

TEST(SharedAttention, MultiplyAdds) {
  Parameters parameters;
  SharedAttentionShape shape = small_shape();
  const SharedAttention layer(parameters, "shared", shape);
  // q and k: 8·2·4·4; values and outputs: 3·8·2·6·6; scores 8·8·4; weighted sums 3·8·8·6.
  EXPECT_EQ(layer.multiply_adds(8), 8 * 2 * 4 * 4 + 3 * 8 * 2 * 6 * 6 + 8 * 8 * 4 + 3 * 8 * 8 * 6);
}

TEST(SharedAttention, BadShapesAreErrors) {
  const auto make = [](auto change) {
    SharedAttentionShape shape = small_shape();
    change(shape);
    Parameters parameters;
    SharedAttention layer(parameters, "shared", shape);
  };
  EXPECT_NO_THROW(make([](SharedAttentionShape&) {}));
  EXPECT_THROW(make([](SharedAttentionShape& s) { s.heads = 5; }), Error);
  EXPECT_THROW(make([](SharedAttentionShape& s) { s.heads = 0; }), Error);
  EXPECT_THROW(make([](SharedAttentionShape& s) { s.tasks = 0; }), Error);
  EXPECT_THROW(make([](SharedAttentionShape& s) { s.window = 2; }), Error);
  EXPECT_THROW(make([](SharedAttentionShape& s) { s.grid = {4, 6}, s.window = 4; }), Error);
  Parameters parameters;
  const SharedAttention layer(parameters, "shared", small_shape());
  const std::vector<double> values(static_cast<std::size_t>(parameters.size()));
  Tape<double> tape(false);
  Graph<double> graph(tape, parameters, values.data(), nullptr);
  const std::vector<Tensor<double>> two(2, tape.make({3, 1, 6}));
  EXPECT_THROW(layer(graph, tape.make({3, 1, 4}), std::span<const Tensor<double>>(two)), Error);
}

}  // namespace
}  // namespace rapt::layers::test
