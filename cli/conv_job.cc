#include "cli/conv_job.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/options.h"
#include "rapt/error.h"
#include "tensor/npy.h"
#include "tensor/random.h"

namespace rapt::cli {
namespace {

using layers::PerAxis;

Array read_array(const std::string& argument, const std::string& path) {
  try {
    return read_npy(path);
  } catch (const Error& error) {
    throw Error("conv: " + argument + ": " + error.what());
  }
}

// f64 if one of the arrays is f64, otherwise f32, unless --dtype says.
ElementType number_type(const std::string& dtype, std::initializer_list<const Array*> arrays) {
  if (!dtype.empty())
    return parse_choice<ElementType>("conv: --dtype", dtype, {{"f32", ElementType::f32}, {"f64", ElementType::f64}});
  const bool wide =
      std::any_of(arrays.begin(), arrays.end(), [](const Array* a) { return *a && a->type() == ElementType::f64; });
  return wide ? ElementType::f64 : ElementType::f32;
}

PerAxis parse_axes(const char* option, const std::string& text) {
  const std::string argument = std::string("conv: ") + option;
  const char* takes = "an integer, or two: ROWS,COLUMNS";
  const std::vector<std::int64_t> values = parse_integers(argument, text, takes);
  if (values.size() > 2) refuse(argument, text, takes);
  return {values.front(), values.back()};
}

std::int64_t parse_size(const char* option, const std::string& text, std::int64_t otherwise) {
  if (text.empty()) return otherwise;
  const std::string argument = std::string("conv: ") + option;
  const std::int64_t value = parse_integers(argument, text, "an integer of 1 or more", 1).front();
  if (value < 1) refuse(argument, text, "an integer of 1 or more");
  return value;
}

// Refuses what does not fit into this machine's memory, before it is allocated.
void reserve(double bytes, const std::string& what) {
  const double memory = static_cast<double>(available_memory());
  if (bytes > memory)
    throw Error("conv: " + what + ": expected at most " + format_bytes(memory) +
                ", the memory left on this machine, got " + format_bytes(bytes));
}

layers::ConvolutionOptions parse_convolution(const ConvArguments& arguments) {
  layers::ConvolutionOptions options;
  if (!arguments.dilation.empty()) options.dilation = parse_axes("--dilation", arguments.dilation);
  if (!arguments.stride.empty()) options.stride = parse_axes("--stride", arguments.stride);
  if (!arguments.padding.empty()) options.padding = parse_axes("--padding", arguments.padding);
  return options;
}

layers::LayerOptions parse_layer(const ConvArguments& arguments) {
  layers::LayerOptions options;
  if (!arguments.alpha.empty()) {
    options.alpha = parse_number("conv: --alpha", arguments.alpha, "a number above 0");
    if (options.alpha <= 0) refuse("conv: --alpha", arguments.alpha, "a number above 0");
  }
  options.value_dim = parse_size("--do", arguments.value_dim, 0);
  options.hidden = parse_size("--dhid", arguments.dhid, 1);
  return options;
}

void add_layer_files(const layers::QuadraticLayer& layer, std::vector<ConvFile>& files) {
  files.push_back({"alpha", layer.alpha});
  files.push_back({"center", layer.center});
  files.push_back({"value", layer.value});
  files.push_back({"output", layer.output});
  if (layer.bias) files.push_back({"bias", layer.bias});
}

Array random_image(const PerAxis& size, std::int64_t channels, ElementType type, std::int64_t seed) {
  const std::vector<std::int64_t> shape{size[0], size[1], channels};
  reserve(8.0 * static_cast<double>(size[0]) * static_cast<double>(size[1]) * static_cast<double>(channels),
          "an image " + to_string(shape));
  Array image(ElementType::f64, shape);
  Random random(seed, 0x636f6e76);
  for (double& value : image.as<double>()) value = random.normal();
  return std::move(image).to(type);
}

layers::QuadraticLayer read_layer(const ConvArguments& arguments) {
  const std::filesystem::path folder = arguments.layer;
  const auto read = [&](const char* name) { return read_array("--layer", (folder / name).string()); };
  layers::QuadraticLayer layer;
  layer.alpha = read("alpha.npy");
  layer.center = read("center.npy");
  layer.value = read("value.npy");
  layer.output = read("output.npy");
  std::error_code ignored;
  if (!arguments.bias.empty()) layer.bias = read_array("--bias", arguments.bias);
  else if (std::filesystem::exists(folder / "bias.npy", ignored)) layer.bias = read("bias.npy");
  const ElementType type =
      number_type(arguments.dtype, {&layer.alpha, &layer.center, &layer.value, &layer.output, &layer.bias});
  for (Array* array : {&layer.alpha, &layer.center, &layer.value, &layer.output, &layer.bias})
    if (*array) *array = std::move(*array).to(type);
  return layer;
}

Array read_or_make_image(const ConvArguments& arguments, const layers::QuadraticLayer& layer) {
  if (!arguments.image.empty()) {
    if (!arguments.size.empty() || !arguments.seed.empty())
      throw Error("conv: expected --image, or --size and --seed for a random image, got both");
    return read_array("--image", arguments.image).to(layer.value.type());
  }
  PerAxis size{32, 32};
  if (!arguments.size.empty()) {
    size = parse_axes("--size", arguments.size);
    if (size[0] < 1 || size[1] < 1 || size[0] > 65536 || size[1] > 65536)
      refuse("conv: --size", arguments.size, "one or two integers from 1 to 65536");
  }
  return random_image(size, layer.in(), layer.value.type(), parse_size("--seed", arguments.seed, 1));
}

}  // namespace

ToAttention kernel_to_attention(const ConvArguments& arguments) {
  if (arguments.image.empty()) throw Error("conv: expected --image beside --kernel, to compare on, got none");
  if (!arguments.size.empty() || !arguments.seed.empty())
    throw Error("conv: expected --size and --seed beside --layer alone, got one of them beside --kernel");
  const layers::ConvolutionOptions options = parse_convolution(arguments);
  const layers::LayerOptions layer_options = parse_layer(arguments);
  Array kernel = read_array("--kernel", arguments.kernel), image = read_array("--image", arguments.image), bias;
  if (!arguments.bias.empty()) bias = read_array("--bias", arguments.bias);
  const ElementType type = number_type(arguments.dtype, {&kernel, &image, &bias});
  kernel = std::move(kernel).to(type);
  image = std::move(image).to(type);
  if (bias) bias = std::move(bias).to(type);
  layers::largest_finite(kernel, "kernel");
  layers::largest_finite(image, "image");

  ToAttention result;
  result.sizes = layers::convolution_sizes(image, kernel, options);
  const double layer_size = static_cast<double>(layer_options.value_dim) * static_cast<double>(kernel.count()) /
                            static_cast<double>(std::min(result.sizes.in, result.sizes.out));
  reserve(2 * static_cast<double>(size_of(type)) * layer_size, "a layer of so large a --do");
  result.layer = layers::layer_of_kernel(kernel, bias, options.dilation, layer_options);
  const layers::Queries queries = layers::queries_of(result.sizes);
  reserve(3 * layers::bytes_of(result.layer, image.shape(), queries), "this image with its padding");

  Array convolution = layers::convolve(image, kernel, bias, options);
  layers::largest_finite(convolution, "the convolution's output");
  result.rounding = layers::rounding_of(image, kernel, bias, options);
  Array out = layers::apply(result.layer, image, queries);
  result.alpha = layer_options.alpha > 0 ? layer_options.alpha : type == ElementType::f64 ? 64 : 32;
  result.difference = layers::compare(out, convolution);
  result.steps = layers::sharpen(result.layer, image, queries, convolution);
  result.reaches_rounding = std::any_of(result.steps.begin(), result.steps.end(), [&](const layers::AlphaStep& step) {
    return step.difference <= result.rounding;
  });
  result.files.push_back({"out", std::move(out)});
  result.files.push_back({"conv", std::move(convolution)});
  add_layer_files(result.layer, result.files);
  return result;
}

ToConvolution layer_to_convolution(const ConvArguments& arguments) {
  for (const auto& [name, text] : {std::pair<const char*, const std::string&>{"--dilation", arguments.dilation},
                                   {"--stride", arguments.stride},
                                   {"--alpha", arguments.alpha},
                                   {"--dhid", arguments.dhid},
                                   {"--do", arguments.value_dim}})
    if (!text.empty()) throw Error(std::string("conv: ") + name + ": expected --kernel beside it, got --layer");
  ToConvolution result;
  result.layer = read_layer(arguments);
  result.nearest = layers::nearest_convolution(result.layer);
  const Array image = read_or_make_image(arguments, result.layer);
  layers::largest_finite(image, "image");
  const layers::ConvolutionOptions options{.dilation = result.nearest.dilation, .padding = result.nearest.padding};
  const layers::ConvolutionSizes sizes = layers::convolution_sizes(image, result.nearest.kernel, options);
  PerAxis padding = result.nearest.padding;
  if (!arguments.padding.empty()) {
    padding = parse_axes("--padding", arguments.padding);
    if (padding[0] < 0 || padding[1] < 0 || padding[0] > 65536 || padding[1] > 65536)
      refuse("conv: --padding", arguments.padding, "one or two integers from 0 to 65536");
  }
  result.queries = {.padding = padding, .first = padding, .stride = {1, 1}, .count = sizes.image};
  result.image_shape = image.shape();
  reserve(2 * layers::bytes_of(result.layer, image.shape(), result.queries), "this image with its padding");

  Array convolution = layers::convolve(image, result.nearest.kernel, result.layer.bias, options);
  layers::largest_finite(convolution, "the convolution's output");
  Array out = layers::apply(result.layer, image, result.queries);
  result.difference = layers::compare(out, convolution);
  result.weights = layers::weights_at(result.layer, result.nearest.shifts, sizes.image, result.queries);
  result.files.push_back({"kernel", result.nearest.kernel});
  if (result.layer.bias) result.files.push_back({"bias", result.layer.bias});
  result.files.push_back({"out", std::move(out)});
  result.files.push_back({"conv", std::move(convolution)});
  return result;
}

}  // namespace rapt::cli
