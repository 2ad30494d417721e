// Assignment 6, c.2, d.1, e: multi-head attention with quadratic encoding is a convolution.
#include <algorithm>
#include <cmath>
#include <limits>

#include "layers/convolution_attention.h"
#include "pictures/curves.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "tensor/random.h"

namespace rapt::reproduce {
namespace {

using layers::PerAxis;

struct Problem {
  PerAxis kernel{3, 3};
  PerAxis image{12, 12};
  std::int64_t in = 3, out = 4;
  layers::ConvolutionOptions options = {};
};

struct Outcome {
  PerAxis output{};
  std::vector<layers::AlphaStep> steps;
  double rounding = 0;
  double difference = 0;  // the least of the steps
  double alpha = 0;       // the first that is within rounding; 0: none

  bool reached() const { return alpha > 0; }
};

Array random_array(Random& random, std::vector<std::int64_t> shape, ElementType type) {
  Array array(ElementType::f64, std::move(shape));
  for (double& value : array.as<double>()) value = random.normal();
  return std::move(array).to(type);
}

Outcome compare_both(const Problem& problem, ElementType type, Random& random) {
  const Array kernel = random_array(random, {problem.kernel[0], problem.kernel[1], problem.in, problem.out}, type);
  const Array image = random_array(random, {problem.image[0], problem.image[1], problem.in}, type);
  const Array bias = random_array(random, {problem.out}, type);
  const layers::ConvolutionSizes sizes = layers::convolution_sizes(image, kernel, problem.options);
  const layers::QuadraticLayer layer = layers::layer_of_kernel(kernel, bias, problem.options.dilation, {});
  const Array convolution = layers::convolve(image, kernel, bias, problem.options);
  Outcome outcome;
  outcome.output = sizes.output();
  outcome.rounding = layers::rounding_of(image, kernel, bias, problem.options);
  outcome.steps = layers::sharpen(layer, image, layers::queries_of(sizes), convolution);
  outcome.difference = std::numeric_limits<double>::infinity();
  for (const layers::AlphaStep& step : outcome.steps) {
    outcome.difference = std::min(outcome.difference, step.difference);
    if (outcome.alpha == 0 && step.difference <= outcome.rounding) outcome.alpha = step.alpha;
  }
  return outcome;
}

pictures::Series series_of(const std::string& name, const Outcome& outcome) {
  pictures::Series series{name, {}, {}};
  for (const layers::AlphaStep& step : outcome.steps) {
    series.x.push_back(step.alpha);
    // A difference of 0 has no place on a logarithmic axis.
    series.y.push_back(step.difference > 0 ? step.difference : std::numeric_limits<double>::quiet_NaN());
  }
  return series;
}

std::string text_of(const Outcome& outcome) {
  return significant(outcome.difference, 2) + (outcome.reached()
                                                   ? ", within rounding from α = " + significant(outcome.alpha)
                                                   : ", rounding " + significant(outcome.rounding, 2));
}

std::string size_text(const PerAxis& n) { return std::to_string(n[0]) + " × " + std::to_string(n[1]); }

void add_cases(const Context& context, Section& section) {
  struct Named {
    const char* name;
    const char* document;
    Problem problem;
  };
  const std::vector<Named> cases{
      {"3 × 3", "Assignment 6, c.2", {}},
      {"5 × 5", "Assignment 6, c.2", {.kernel = {5, 5}}},
      {"2 × 4, even sizes", "", {.kernel = {2, 4}}},
      {"3 × 3, dilation 2", "Assignment 6, e.2", {.options = {.dilation = {2, 2}}}},
      {"3 × 3, stride 2", "Assignment 6, e.3", {.options = {.stride = {2, 2}}}},
      {"3 × 3, no padding", "", {.options = {.padding = PerAxis{0, 0}}}},
      {"3 × 3, dilation 2, stride 3", "", {.options = {.dilation = {2, 2}, .stride = {3, 3}}}}};
  Table table{"One attention layer for each convolution, 12 × 12 images with 3 channels, 4 output channels",
              {"kernel", "numbers", "output", "α within rounding", "largest difference", "rounding"},
              {},
              3};
  pictures::Curves curves{"Attention against convolution", "α", "largest difference", {}, true, true};
  Random random(context.seed, 0x636f6e76);
  for (const Named& one : cases)
    for (const ElementType type : {ElementType::f32, ElementType::f64}) {
      const Outcome outcome = compare_both(one.problem, type, random);
      table.rows.push_back({one.name, name_of(type), size_text(outcome.output),
                            outcome.reached() ? significant(outcome.alpha) : "none", significant(outcome.difference, 2),
                            significant(outcome.rounding, 2)});
      const bool drawn = std::string(one.name) == "3 × 3" || std::string(one.name) == "3 × 3, dilation 2";
      if (drawn) curves.series.push_back(series_of(std::string(one.name) + ", " + name_of(type), outcome));
      if (*one.document == 0 || type != ElementType::f64) continue;
      section.claims.push_back({one.document, std::string("K² heads are the convolution: ") + one.name,
                                "equal as α → ∞", text_of(outcome), "a finite α with a difference within rounding",
                                outcome.reached()});
    }
  section.add(std::move(table));
  section.show(
      "convolution", draw(curves),
      "The weights of the other pixels fall as e^−α, and the difference with them, until only rounding is left.");
}

void add_random_cases(const Context& context, Section& section) {
  Random random(context.seed, 0x72616e64);
  const std::int64_t count = context.quick ? 20 : 100;
  std::int64_t within = 0;
  const auto pick = [&](std::uint64_t most) { return static_cast<std::int64_t>(1 + random.below(most)); };
  for (std::int64_t n = 0; n < count; ++n) {
    context.progress(n, count, "random kernels");
    Problem problem;
    problem.kernel = {pick(5), pick(5)};
    problem.image = {pick(12) + 4, pick(12) + 4};
    problem.in = pick(6);
    problem.out = pick(6);
    problem.options.dilation = {pick(2), pick(2)};
    problem.options.stride = {pick(3), pick(3)};
    within +=
        compare_both(problem, random.below(2) == 0 ? ElementType::f32 : ElementType::f64, random).reached() ? 1 : 0;
  }
  section.claims.push_back({"Assignment 6, c.2", "Any kernel, size, dilation and stride", "any K × K convolution",
                            of(within, count) + " random ones within rounding", "all of them", within == count});
}

void add_padding(Section& section) {
  std::string sizes;
  bool kept = true;
  for (const std::int64_t k : {1, 3, 5, 7, 9}) {
    const Array image(ElementType::f32, {12, 12, 1}), kernel(ElementType::f32, {k, k, 1, 1});
    const layers::ConvolutionSizes s = layers::convolution_sizes(image, kernel, {.padding = PerAxis{k / 2, k / 2}});
    kept = kept && s.output() == s.image;
    sizes += (sizes.empty() ? "K = " : ", ") + std::to_string(k);
  }
  section.claims.push_back({"Assignment 6, e.1", "Zero padding that keeps the size", "⌊K/2⌋ on each side",
                            std::string(kept ? "12 × 12 kept" : "not kept") + " for " + sizes,
                            "the size is kept for odd K", kept});
}

// d.1: the weight at δ = Δ as α grows.
void add_limit(Section& section) {
  const Array kernel(ElementType::f64, {3, 3, 1, 1});
  layers::QuadraticLayer layer = layers::layer_of_kernel(kernel, Array(), {1, 1}, {});
  std::vector<PerAxis> shifts;
  for (std::int64_t h = 0; h < layer.heads(); ++h) shifts.push_back({h / 3 - 1, h % 3 - 1});
  pictures::Series weight{"least of the nine heads", {}, {}};
  Table table{"d.1: the weight of the pixel at Δ, mean over a 12 × 12 image, smallest of nine heads",
              {"α", "weight", "1 − weight"},
              {},
              0};
  double last = 0;
  for (const double alpha : {0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0}) {
    for (double& a : layer.alpha.as<double>()) a = alpha;
    const std::vector<double> weights =
        layers::weights_at(layer, shifts, {12, 12}, {.padding = {1, 1}, .first = {1, 1}, .count = {12, 12}});
    last = *std::min_element(weights.begin(), weights.end());
    weight.x.push_back(alpha);
    weight.y.push_back(last);
    table.rows.push_back({significant(alpha), significant(last, 6), significant(1 - last, 2)});
  }
  section.claims.push_back({"Assignment 6, d.1", "As α grows the softmax becomes one at δ = Δ", "1",
                            significant(last, 6) + " at α = 100", "1 to rounding", std::abs(last - 1) <= 1e-15});
  section.add(std::move(table));
  section.show("limit", draw(pictures::Curves{"The weight at δ = Δ", "α", "weight", {weight}, true, false}),
               "From spread over the image to concentrated on one pixel.");
}

void add_way_back(const Context& context, Section& section) {
  Random random(context.seed, 0x6261636b);
  const Array kernel = random_array(random, {3, 3, 3, 4}, ElementType::f64);
  const layers::QuadraticLayer layer = layers::layer_of_kernel(kernel, Array(), {1, 1}, {});
  const layers::NearestConvolution nearest = layers::nearest_convolution(layer);
  const double difference = nearest.kernel.shape() == kernel.shape() ? layers::compare(nearest.kernel, kernel).largest
                                                                     : std::numeric_limits<double>::infinity();
  section.claims.push_back({"Assignment 6, c.2", "W^(h) = W_conv[f(h)]: the kernel read back from the heads",
                            "the same kernel", "largest difference " + significant(difference, 2), "at most 1e-14",
                            difference <= 1e-14});
}

}  // namespace

Section run_convolution(const Context& context) {
  Section section{"Attention as convolution", "Assignment 6, c.2, d.1, e"};
  section.say(
      "For each kernel, the attention layer that equals it is built: one head per tap, centred on the tap, with the "
      "tap's matrix in its value and output projections. Both are computed on random images, the convolution by plain "
      "loops in double, and the sharpness α is doubled until the difference no longer falls. “Rounding” is how much "
      "the same sums may differ in another order.");
  add_cases(context, section);
  add_limit(section);
  add_padding(section);
  add_way_back(context, section);
  add_random_cases(context, section);
  section.add(Commands{{"rapt conv --kernel k.npy --image x.npy --out layer",
                        "rapt conv --kernel k.npy --image x.npy --dilation 2 --stride 2 --out layer",
                        "rapt conv --layer layer --out convolution"}});
  return section;
}

}  // namespace rapt::reproduce
