#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "cli/conv_job.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/verbs.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;
using Table = std::vector<std::vector<std::string>>;

constexpr const char* kConvFooter =
    "With --kernel: builds the multi-head self-attention with quadratic encoding that equals a\n"
    "convolution, one head per tap. Writes out.npy (the attention's output), conv.npy (the\n"
    "convolution's), and the layer: alpha.npy [H], center.npy [H,2], value.npy [H,Din,Do], output.npy\n"
    "[H,Do,Dout], bias.npy. Prints how the largest difference falls as alpha grows; exits with 1 if it\n"
    "does not reach rounding.\n"
    "With --layer: reads these arrays from a directory, finds the nearest convolution (each head at the\n"
    "pixel nearest to its center), and prints how far it is and how sharp each head is. Writes\n"
    "kernel.npy, bias.npy, out.npy and conv.npy.\n"
    "\n"
    "Images are [R,C,D] or [B,R,C,D], channels last; kernels [K1,K2,Din,Dout], not flipped. A convolution\n"
    "gives floor((n + 2 padding - dilation (K - 1) - 1) / stride) + 1 rows and columns; padding is zeros\n"
    "on each side. Options with N also accept ROWS,COLUMNS.\n"
    "\n"
    "Examples:\n"
    "  rapt conv --kernel k.npy --image x.npy --out layer\n"
    "  rapt conv --kernel k.npy --image x.npy --dilation 2 --stride 2 --bias b.npy --do 8 \\\n"
    "    --out layer --json\n"
    "  rapt conv --layer layer --out convolution\n";

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string axes_text(const layers::PerAxis& n) { return std::to_string(n[0]) + "," + std::to_string(n[1]); }

void add_files(const ConvArguments& arguments, const std::vector<ConvFile>& files, Json& summary) {
  summary["directory"] = arguments.out;
  summary["files"] = Json::array();
  for (const ConvFile& file : files)
    summary["files"].push_back(
        {{"name", file.name + ".npy"}, {"shape", file.value.shape()}, {"dtype", name_of(file.value.type())}});
}

void print_json(const Json& summary) {
  // The name of a directory need not be UTF-8.
  std::cout << summary.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void print_files(const ConvArguments& arguments, const std::vector<ConvFile>& files) {
  Table rows;
  for (const ConvFile& file : files)
    rows.push_back({(std::filesystem::path(arguments.out) / (file.name + ".npy")).string(), name_of(file.value.type()),
                    to_string(file.value.shape())});
  std::cout << "\n" << format_table(rows);
}

void write_files(const ConvArguments& arguments, const std::vector<ConvFile>& files) {
  StagedFiles staged;
  staged.make_directory(arguments.out);
  for (const ConvFile& file : files)
    stage_npy(staged, std::filesystem::path(arguments.out) / (file.name + ".npy"), file.value);
  staged.commit();
}

void print(const ConvArguments& arguments, const ToAttention& r) {
  if (arguments.json) {
    Json summary;
    summary["dtype"] = name_of(r.layer.value.type());
    summary["heads"] = r.layer.heads();
    summary["value_dim"] = r.layer.value_dim();
    summary["hidden_dim"] = r.layer.hidden;
    summary["parameters"] = r.layer.parameter_count();
    summary["dilation"] = r.sizes.dilation;
    summary["stride"] = r.sizes.stride;
    summary["padding"] = r.sizes.padding;
    summary["output"] = r.sizes.output();
    summary["alpha"] = r.alpha;
    summary["largest_difference"] = r.difference.largest;
    summary["rounding"] = r.rounding;
    summary["reaches_rounding"] = r.reaches_rounding;
    summary["series"] = Json::array();
    for (const layers::AlphaStep& step : r.steps)
      summary["series"].push_back({{"alpha", step.alpha}, {"largest_difference", step.difference}});
    add_files(arguments, r.files, summary);
    print_json(summary);
    return;
  }
  std::cout << counted(r.layer.heads(), "head") << ", " << r.layer.in() << " to " << counted(r.layer.out(), "channel")
            << ", D_o = " << r.layer.value_dim() << ", D_hid = " << r.layer.hidden << ", "
            << counted(r.layer.parameter_count(), "parameter") << ", " << name_of(r.layer.value.type()) << "\n"
            << "dilation " << axes_text(r.sizes.dilation) << ", stride " << axes_text(r.sizes.stride) << ", padding "
            << axes_text(r.sizes.padding) << "\n\n";
  Table rows{{"alpha", "largest difference from the convolution"}};
  for (const layers::AlphaStep& step : r.steps)
    rows.push_back({number(step.alpha), number(step.difference) + (step.difference <= r.rounding ? "  rounding" : "")});
  std::cout << format_table(rows) << "\nlargest difference at alpha = " << number(r.alpha) << ": "
            << number(r.difference.largest) << " (rounding: " << number(r.rounding) << ")\n";
  print_files(arguments, r.files);
}

void print(const ConvArguments& arguments, const ToConvolution& r) {
  const auto relative = [&] {
    return r.difference.reference > 0 ? r.difference.frobenius / r.difference.reference : 0;
  };
  const auto value_of = [](const Array& array, std::size_t n) {
    return array.type() == ElementType::f64 ? array.as<double>()[n] : static_cast<double>(array.as<float>()[n]);
  };
  if (arguments.json) {
    Json summary;
    summary["dtype"] = name_of(r.layer.value.type());
    summary["kernel"] = r.nearest.kernel.shape();
    summary["dilation"] = r.nearest.dilation;
    summary["padding"] = r.nearest.padding;
    summary["image"] = r.image_shape;
    summary["image_padding"] = r.queries.padding;
    summary["largest_difference"] = r.difference.largest;
    summary["frobenius_difference"] = r.difference.frobenius;
    summary["relative_difference"] = relative();
    summary["heads"] = Json::array();
    for (std::size_t h = 0; h < r.weights.size(); ++h)
      summary["heads"].push_back({{"alpha", value_of(r.layer.alpha, h)},
                                  {"center", {value_of(r.layer.center, 2 * h), value_of(r.layer.center, 2 * h + 1)}},
                                  {"shift", r.nearest.shifts[h]},
                                  {"weight", r.weights[h]}});
    add_files(arguments, r.files, summary);
    print_json(summary);
    return;
  }
  Table rows{{"head", "alpha", "center", "shift", "weight there"}};
  for (std::size_t h = 0; h < r.weights.size(); ++h)
    rows.push_back({std::to_string(h), number(value_of(r.layer.alpha, h)),
                    number(value_of(r.layer.center, 2 * h)) + "," + number(value_of(r.layer.center, 2 * h + 1)),
                    axes_text(r.nearest.shifts[h]), number(r.weights[h])});
  std::cout << format_table(rows) << "\nkernel " << to_string(r.nearest.kernel.shape()) << ", dilation "
            << axes_text(r.nearest.dilation) << ", padding " << axes_text(r.nearest.padding) << "\non "
            << (arguments.image.empty() ? "a random image " : "the image ") << to_string(r.image_shape)
            << ": largest difference " << number(r.difference.largest) << ", Frobenius "
            << number(r.difference.frobenius) << ", " << number(relative()) << " of the convolution's norm\n";
  print_files(arguments, r.files);
}

void run(const ConvArguments& arguments) {
  check_output_directory("conv: --out", arguments.out);
  if (arguments.kernel.empty() == arguments.layer.empty())
    throw Error(std::string("conv: expected one of --kernel and --layer, got ") +
                (arguments.kernel.empty() ? "neither" : "both"));
  if (arguments.layer.empty()) {
    const ToAttention result = kernel_to_attention(arguments);
    write_files(arguments, result.files);
    print(arguments, result);
    if (!result.reaches_rounding) throw ExitStatus{1};
  } else {
    const ToConvolution result = layer_to_convolution(arguments);
    write_files(arguments, result.files);
    print(arguments, result);
  }
}

}  // namespace

void add_conv(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("conv", "A convolution as attention, and attention as a convolution");
  // Lives as long as the callback that captures it.
  auto arguments = std::make_shared<ConvArguments>();
  ConvArguments& a = *arguments;
  const auto option = [verb](const char* name, auto& target, const char* help, const char* takes) {
    return verb->add_option(name, target, help)->type_name(takes)->check(value_given());
  };
  option("--kernel", a.kernel, "Convolution kernel [K1,K2,Din,Dout]", "K.npy");
  option("--layer", a.layer, "Directory with the arrays of an attention layer", "DIR");
  option("--image", a.image, "Image [R,C,D] or [B,R,C,D]; with --layer a random one by default", "X.npy");
  option("--out", a.out, "Directory for the results; created if missing", "DIR")->required();
  option("--bias", a.bias, "Added to every pixel [Dout]", "B.npy");
  option("--dilation", a.dilation, "Pixels between the kernel's taps [1]", "N");
  option("--stride", a.stride, "Pixels between outputs [1]", "N");
  option("--padding", a.padding,
         "Zeros on each side [floor(K/2)*dilation]. With --layer: around the image that attention sees [as far as "
         "its heads look]",
         "N");
  option("--alpha", a.alpha, "Sharpness of the heads [32 for f32, 64 for f64]", "A");
  option("--dhid", a.dhid, "Width of the queries and keys, which are 0 [1]", "N");
  option("--do", a.value_dim, "Width of a head's values [min(Din,Dout), the least]", "N");
  option("--size", a.size, "With --layer: size of the random image [32]", "N");
  option("--seed", a.seed, "With --layer: its seed [1]", "N");
  option("--dtype", a.dtype, "Type to compute in [the widest of the inputs]", "f32|f64");
  verb->add_flag("--json", a.json, "Print the summary as JSON");
  verb->footer(kConvFooter);
  verb->callback([arguments] { run(*arguments); });
}

}  // namespace rapt::cli
