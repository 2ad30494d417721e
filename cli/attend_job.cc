#include "cli/attend_job.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "cli/attend_inputs.h"
#include "cli/options.h"
#include "rapt/attend.h"
#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::cli {
namespace {

struct Rows {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// "A:B": rows from A up to, and without, B.
Rows parse_rows(const std::string& text, std::int64_t queries) {
  const std::string takes = "A:B with 0 <= A < B <= " + std::to_string(queries);
  const std::string argument = "attend: --weights-rows";
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse(argument, text, takes);
  const std::int64_t begin = parse_integers(argument, text.substr(0, colon), takes, 1)[0];
  const std::int64_t end = parse_integers(argument, text.substr(colon + 1), takes, 1)[0];
  if (begin < 0 || begin >= end || end > queries) refuse(argument, text, takes);
  return {begin, end};
}

class Job {
 public:
  explicit Job(const AttendArguments& arguments)
      : arguments_(arguments), inputs_(arguments), sizes_(inputs_.sizes), memory_(available_memory()) {}

  AttendResult run() {
    // The naive path stores what the others do not.
    if (inputs_.options.path == Path::reference)
      reserve("the scores of --reference", ElementType::f64, {sizes_.queries, sizes_.keys});
    prepare_forward();
    prepare_weights();
    if (arguments_.stats) prepare_statistics();
    if (!arguments_.grad.empty()) prepare_backward();

    const auto started = std::chrono::steady_clock::now();
    Saved saved;
    if (!arguments_.grad.empty()) outputs_.saved = &saved;
    attend(inputs_.views(), outputs_, inputs_.options);
    if (!arguments_.grad.empty()) {
      const std::vector<ConstView> out(outputs_.out.begin(), outputs_.out.end());
      std::vector<ConstView> grad_out;
      for (const Array& array : grad_out_) grad_out.push_back(array.view());
      attend_backward(inputs_.views(), out, grad_out, &saved, gradients_, inputs_.options);
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;

    AttendResult result;
    for (auto& [name, value, shape] : made_) {
      value.reshape(shape);
      result.arrays.push_back({name, std::move(value)});
    }
    result.mechanism = inputs_.score.mechanism->name();
    result.normalizer = arguments_.normalize;
    result.dtype = inputs_.dtype;
    result.threads = inputs_.options.threads > 0 ? inputs_.options.threads : default_threads();
    result.seconds = elapsed.count();
    return result;
  }

 private:
  struct Made {
    std::string name;
    Array value;
    std::vector<std::int64_t> shape;  // in the file
  };

  // Refuses what this machine cannot hold before it is allocated.
  void reserve(const std::string& name, ElementType type, const std::vector<std::int64_t>& shape) {
    double bytes = static_cast<double>(size_of(type));
    for (const std::int64_t size : shape) bytes *= static_cast<double>(size);
    reserved_ += bytes;
    if (reserved_ > static_cast<double>(memory_))
      throw Error("attend: " + name + " " + to_string(shape) + " makes the results " + format_bytes(reserved_) +
                  "; this machine has " + format_bytes(static_cast<double>(memory_)) + " of memory left");
  }

  // An array that becomes a file. `shape` is what the library sees, `file_shape` what the file gets.
  Array& make(const std::string& name, ElementType type, std::vector<std::int64_t> shape,
              std::vector<std::int64_t> file_shape) {
    reserve(name + ".npy", type, shape);
    made_.push_back({name, Array(type, std::move(shape)), std::move(file_shape)});
    return made_.back().value;
  }

  // A result for every row: [B, H, Sq, tail…], in the file without the dimensions that no input had.
  Array& make_rows(const std::string& name, ElementType type, const std::vector<std::int64_t>& tail) {
    std::int64_t width = 1;
    std::vector<std::int64_t> file_shape = inputs_.leading(sizes_.queries);
    for (const std::int64_t size : tail) {
      width *= size;
      file_shape.push_back(size);
    }
    return make(name, type, {inputs_.batch, sizes_.heads, sizes_.queries, width}, std::move(file_shape));
  }

  static std::string numbered(const char* name, std::size_t n) {
    return n == 0 ? name : std::string(name) + "_" + std::to_string(n);
  }

  void prepare_forward() {
    for (std::size_t n = 0; n < inputs_.v.size(); ++n)
      outputs_.out.push_back(
          make_rows(numbered("out", n), element_type(inputs_.dtype), {inputs_.v[n].shape().back()}).view());
    outputs_.lse = make_rows("lse", inputs_.number_type, {}).view();
  }

  void prepare_weights() {
    if (!arguments_.weights && arguments_.weights_head.empty() && arguments_.weights_rows.empty()) return;
    Rows rows{0, sizes_.queries};
    if (!arguments_.weights_rows.empty()) rows = parse_rows(arguments_.weights_rows, sizes_.queries);
    std::int64_t batch_begin = 0, batch_end = inputs_.batch, head_begin = 0, head_end = sizes_.heads;
    if (!arguments_.weights_head.empty()) {
      const std::string takes =
          "BATCH,HEAD below " + std::to_string(inputs_.batch) + "," + std::to_string(sizes_.heads);
      const auto chosen = parse_integers("attend: --weights-head", arguments_.weights_head, takes, 2);
      if (chosen[0] < 0 || chosen[0] >= inputs_.batch || chosen[1] < 0 || chosen[1] >= sizes_.heads)
        refuse("attend: --weights-head", arguments_.weights_head, takes);
      batch_begin = chosen[0], batch_end = chosen[0] + 1;
      head_begin = chosen[1], head_end = chosen[1] + 1;
    }
    const std::int64_t count = rows.end - rows.begin;
    const std::vector<std::int64_t> shape{batch_end - batch_begin, head_end - head_begin, count, sizes_.keys};
    const std::vector<std::int64_t> file_shape(shape.end() - inputs_.rank, shape.end());
    Array& weights = make("weights", inputs_.number_type, shape, file_shape);
    std::byte* data = weights.data();
    for (std::int64_t b = batch_begin; b < batch_end; ++b)
      for (std::int64_t h = head_begin; h < head_end; ++h) {
        const Shape part{1, 1, count, sizes_.keys};
        const View out{data, weights.view().dtype, part, contiguous_strides(part)};
        outputs_.weights.push_back({b, h, rows.begin, rows.end, out});
        data += static_cast<std::size_t>(count * sizes_.keys) * size_of(weights.type());
      }
  }

  void prepare_statistics() {
    Statistics& statistics = outputs_.statistics;
    statistics.grid = inputs_.grid;
    const bool on_grid = inputs_.grid[0] > 0;
    statistics.entropy = make_rows("entropy", inputs_.number_type, {}).view();
    statistics.argmax = make_rows("argmax", ElementType::i64, {}).as<std::int64_t>().data();
    using Tail = std::vector<std::int64_t>;
    statistics.position = make_rows("position", inputs_.number_type, on_grid ? Tail{2} : Tail{}).view();
    statistics.covariance = make_rows("covariance", inputs_.number_type, on_grid ? Tail{2, 2} : Tail{}).view();
    if (arguments_.top_k.empty()) return;
    const std::string takes = "a whole number from 1 to " + std::to_string(sizes_.keys) + ", the number of keys";
    const std::int64_t top_k = parse_integers("attend: --top-k", arguments_.top_k, takes, 1)[0];
    if (top_k < 1 || top_k > std::min<std::int64_t>(sizes_.keys, std::numeric_limits<int>::max()))
      refuse("attend: --top-k", arguments_.top_k, takes);
    statistics.top_k = static_cast<int>(top_k);
    statistics.top_indices = make_rows("topk", ElementType::i64, {top_k}).as<std::int64_t>().data();
    statistics.top_weights = make_rows("topk_weights", inputs_.number_type, {top_k}).view();
  }

  // A gradient in the shape of what it belongs to.
  View make_gradient(const std::string& name, const Array& of) {
    return make(name, of.type(), of.shape(), of.shape()).view();
  }

  void prepare_backward() {
    if (arguments_.grad.size() != inputs_.v.size())
      throw Error("attend: --grad: got " + std::to_string(arguments_.grad.size()) + " files for " +
                  std::to_string(inputs_.v.size()) + " value sets; takes one for each --v, in the same order");
    for (std::size_t n = 0; n < arguments_.grad.size(); ++n) {
      Array grad = read_input("--grad", arguments_.grad[n], 2, 4).to(element_type(inputs_.dtype));
      const Shape got = std::as_const(grad).view().shape;
      if (got != outputs_.out[n].shape)
        throw Error("attend: --grad '" + arguments_.grad[n] + "': got shape " + to_string(grad.shape()) +
                    "; takes that of " + numbered("out", n) + ", " + to_string(file_shape_of(numbered("out", n))));
      grad_out_.push_back(std::move(grad));
    }
    gradients_.q = make_gradient("dq", inputs_.q);
    gradients_.k = make_gradient("dk", inputs_.k);
    for (std::size_t n = 0; n < inputs_.v.size(); ++n)
      gradients_.v.push_back(make_gradient(numbered("dv", n), inputs_.v[n]));
    if (inputs_.bias) gradients_.bias = make_gradient("dbias", inputs_.bias);
    for (const Parameter& parameter : inputs_.score.parameters)
      gradients_.parameters.push_back({parameter.name, make_gradient("d_" + parameter.name, parameter.value)});
    for (const Parameter& parameter : inputs_.normalizer_parameters)
      gradients_.parameters.push_back({parameter.name, make_gradient("d_" + parameter.name, parameter.value)});
  }

  const std::vector<std::int64_t>& file_shape_of(const std::string& name) const {
    return std::find_if(made_.begin(), made_.end(), [&](const Made& made) { return made.name == name; })->shape;
  }

  const AttendArguments& arguments_;
  AttendInputs inputs_;
  const CallSizes& sizes_;
  std::uint64_t memory_;
  double reserved_ = 0;
  std::vector<Made> made_;
  std::vector<Array> grad_out_;
  Outputs outputs_;
  Gradients gradients_;
};

}  // namespace

AttendResult run_attend(const AttendArguments& arguments) { return Job(arguments).run(); }

}  // namespace rapt::cli
