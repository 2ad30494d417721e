#include "support/custom.h"

#include <cmath>
#include <memory>

#include "support/call.h"
#include "support/compare.h"

namespace support {
namespace {

using oracle::Array;

// Runs like a registered mechanism: the score of the call is replaced.
class CustomCall {
 public:
  explicit CustomCall(const Custom& c) : call_(c.described) {
    call_.options.score = c.score;
    call_.options.threads = 1;
    for (const auto& [name, value] : c.parameters) {
      buffers_.push_back(std::make_unique<Buffer>(value, rapt::Dtype::f64));
      call_.options.score.parameters.push_back({name, buffers_.back()->view()});
    }
  }
  Call& call() { return call_; }
  Buffer& parameter(std::size_t n) { return *buffers_[n]; }

  // Of the parameters alone: Call asks for those that the case describes.
  std::vector<Array> parameter_gradients() {
    ForwardWants wants;
    wants.saved = true;
    call_.forward(wants);
    rapt::Gradients gradients;
    std::vector<Buffer> results;
    for (const auto& buffer : buffers_) results.emplace_back(rapt::Dtype::f64, buffer->shape());
    for (std::size_t n = 0; n < results.size(); ++n)
      gradients.parameters.push_back({call_.options.score.parameters[n].name, results[n].view()});
    rapt::attend_backward(call_.inputs, call_.out_views(), call_.grad_out, &call_.saved(), gradients, call_.options);
    std::vector<Array> values;
    for (const Buffer& buffer : results) {
      EXPECT_EQ(buffer.damage(), "");
      values.push_back(buffer.values());
    }
    return values;
  }

 private:
  Call call_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

double loss(Call& call) {
  const ForwardResult r = call.forward();
  double sum = 0;
  for (std::size_t e = 0; e < r.out[0].data.size(); ++e) sum += r.out[0].data[e] * call.described().grad_out[0].data[e];
  return sum;
}

Array differences(Call& call, Buffer& buffer) {
  const Array kept = buffer.values();
  Array moved = kept, result(kept.shape);
  for (std::size_t n = 0; n < kept.data.size(); ++n) {
    moved.data[n] = kept.data[n] + 1e-5;
    buffer.set(moved);
    const double above = loss(call);
    moved.data[n] = kept.data[n] - 1e-5;
    buffer.set(moved);
    result.data[n] = (above - loss(call)) / 2e-5;
    moved.data[n] = kept.data[n];
  }
  buffer.set(kept);
  return result;
}

}  // namespace

Custom Custom::make(const rapt::Score& score, const CaseSpec& spec,
                    std::vector<std::pair<std::string, Array>> parameters) {
  return {make_case(spec), score, std::move(parameters)};
}

void check_gradients(const Custom& c) {
  CustomCall custom(c);
  for (rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
    SCOPED_TRACE(static_cast<int>(path));
    Call& call = custom.call();
    call.options.path = path;
    const BackwardResult b = call.backward();
    EXPECT_EQ(b.damage, "");
    EXPECT_TRUE(agree(b.gradients.q, differences(call, call.q()), 1e-6, 0.01)) << "q";
    EXPECT_TRUE(agree(b.gradients.k, differences(call, call.k()), 1e-6, 0.01)) << "k";
    EXPECT_TRUE(agree(b.gradients.v[0], differences(call, call.v(0)), 1e-6, 0.01)) << "v";
    const std::vector<Array> parameters = custom.parameter_gradients();
    for (std::size_t n = 0; n < parameters.size(); ++n)
      EXPECT_TRUE(agree(parameters[n], differences(call, custom.parameter(n)), 1e-6, 0.01)) << c.parameters[n].first;
  }
}

void check_values(const Custom& c, const std::function<double(Int, Int, Int)>& score) {
  CustomCall custom(c);
  const oracle::Problem& p = c.described.problem;
  for (rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
    custom.call().options.path = path;
    const ForwardResult r = custom.call().forward();
    ASSERT_EQ(r.damage, "");
    for (Int h = 0; h < p.heads(); ++h)
      for (Int i = 0; i < p.queries(); ++i) {
        double sum = 0;
        std::vector<double> out(static_cast<std::size_t>(p.v[0].shape[3]));
        for (Int j = 0; j < p.keys(); ++j) {
          const double e = std::exp(score(h, i, j));
          sum += e;
          for (std::size_t d = 0; d < out.size(); ++d) out[d] += e * p.v[0].at(0, h, j, static_cast<Int>(d));
        }
        for (std::size_t d = 0; d < out.size(); ++d)
          ASSERT_NEAR(r.out[0].at(0, h, i, static_cast<Int>(d)), sum > 0 ? out[d] / sum : 0, 1e-12)
              << "row " << i << ", path " << static_cast<int>(path);
      }
  }
}

}  // namespace support
