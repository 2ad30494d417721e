#include "cli/attend_job.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "attend/copied_call.h"
#include "backends/mpi/session.h"
#include "cli/attend_errors.h"
#include "cli/attend_inputs.h"
#include "cli/device_processes.h"
#include "cli/options.h"
#include "rapt/attend.h"
#include "rapt/distributed.h"
#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::cli {
namespace {

struct Rows {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// "A:B": rows from A up to, and without, B.
Rows parse_rows(const std::string& text) {
  const char* takes = "A:B, rows from A up to B";
  const std::string argument = "attend: --weights-rows";
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse(argument, text, takes);
  return {parse_integers(argument, text.substr(0, colon), takes, 1)[0],
          parse_integers(argument, text.substr(colon + 1), takes, 1)[0]};
}

class Job {
 public:
  explicit Job(const AttendArguments& arguments)
      : arguments_(arguments), inputs_(arguments), sizes_(inputs_.sizes), memory_(available_memory()) {}

  AttendResult run() {
    // Only the naive path stores the score matrix.
    if (inputs_.options.path == Path::reference)
      reserve("the scores of --reference", ElementType::f64, {sizes_.queries, sizes_.keys});
    const Transport transport = parse_transport(arguments_.transport);
    if (mpi::world()) {
      refuse_over_processes();
      processes_ = std::make_unique<DeviceProcesses>(*mpi::world(), transport, inputs_.device);
      inputs_.device = processes_->device();
    }
    prepare_forward();
    prepare_weights();
    if (arguments_.stats) prepare_statistics();
    if (!arguments_.grad.empty()) prepare_backward();

    const auto started = std::chrono::steady_clock::now();
    Saved saved;
    if (!arguments_.grad.empty()) outputs_.saved = &saved;
    std::string explanation = "one process: nothing is cut; mpirun -n N rapt attend shares the call among N";
    const DistributedOptions how{
        parse_choice<Distribution>(
            "attend: --distribution", arguments_.distribution,
            {{"auto", Distribution::automatic}, {"ring", Distribution::ring}, {"heads", Distribution::heads}}),
        &explanation};
    if (processes_)
      attend_copied(inputs_.device, inputs_.views(), outputs_, inputs_.options, processes_->communicator(), how);
    else attend_copied(inputs_.device, inputs_.views(), outputs_, inputs_.options);
    if (!arguments_.grad.empty()) {
      const std::vector<ConstView> out(outputs_.out.begin(), outputs_.out.end());
      std::vector<ConstView> grad_out;
      for (const Array& array : grad_out_) grad_out.push_back(array.view());
      std::string backward;
      if (processes_) {
        attend_backward_copied(inputs_.device, inputs_.views(), out, grad_out, &saved, gradients_, inputs_.options,
                               processes_->communicator(), {how.distribution, &backward});
        explanation = "forward: " + explanation + "\nbackward: " + backward;
      } else {
        attend_backward_copied(inputs_.device, inputs_.views(), out, grad_out, &saved, gradients_, inputs_.options);
      }
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;

    AttendResult result;
    for (auto& [name, value, shape, rows] : made_) {
      if (rows < 0) value.reshape(shape);
      result.arrays.push_back({name, std::move(value), shape, rows});
    }
    result.explanation = explanation;
    result.mechanism = inputs_.options.score.mechanism->name();
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
    std::int64_t rows = -1;           // of all processes, where each has some
  };

  void refuse_over_processes() const {
    const auto refuse_option = [](const char* option) {
      throw Error(std::string("attend: ") + option + ": expected none under mpirun, where no process has whole rows");
    };
    if (arguments_.weights || !arguments_.weights_head.empty() || !arguments_.weights_rows.empty())
      refuse_option("--weights");
    if (arguments_.stats) refuse_option("--stats");
    if (inputs_.options.path == Path::reference) refuse_option("--reference");
  }

  // Whether an array with these rows is split over the processes.
  static std::int64_t shared_rows(std::int64_t rows) { return mpi::world() ? rows : -1; }

  // Refuses what does not fit into this machine's memory, before it is allocated.
  void reserve(const std::string& name, ElementType type, const std::vector<std::int64_t>& shape) {
    double bytes = static_cast<double>(size_of(type));
    for (const std::int64_t size : shape) bytes *= static_cast<double>(size);
    reserved_ += bytes;
    if (reserved_ > static_cast<double>(memory_))
      throw Error("attend: expected results of at most " + format_bytes(static_cast<double>(memory_)) +
                  ", the memory left on this machine, got " + format_bytes(reserved_) + " with " + name + " " +
                  to_string(shape));
  }

  // An array that will become a file: `shape` is the library's, `file_shape` the file's.
  Array& make(const std::string& name, ElementType type, std::vector<std::int64_t> shape,
              std::vector<std::int64_t> file_shape, std::int64_t rows = -1) {
    reserve(name + ".npy", type, shape);
    made_.push_back({name, Array(type, std::move(shape)), std::move(file_shape), rows});
    return made_.back().value;
  }

  // A result for every row: [B, H, Sq, tail…]; the file leaves out dimensions that no input had.
  Array& make_rows(const std::string& name, ElementType type, const std::vector<std::int64_t>& tail) {
    std::int64_t width = 1;
    std::vector<std::int64_t> file_shape = inputs_.leading(sizes_.queries);
    for (const std::int64_t size : tail) {
      width *= size;
      file_shape.push_back(size);
    }
    const std::int64_t own = std::as_const(inputs_.q).view().shape[2];
    return make(name, type, {inputs_.batch, sizes_.heads, own, width}, std::move(file_shape),
                shared_rows(sizes_.queries));
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
    if (!arguments_.weights_rows.empty()) rows = parse_rows(arguments_.weights_rows);
    std::int64_t batches = inputs_.batch, heads = sizes_.heads, first_batch = 0, first_head = 0;
    if (!arguments_.weights_head.empty()) {
      const auto chosen =
          parse_integers("attend: --weights-head", arguments_.weights_head, "BATCH,HEAD: two integers", 2);
      first_batch = chosen[0];
      first_head = chosen[1];
      batches = heads = 1;
    }
    // Allocates nothing for rows that do not exist; attend() refuses them.
    const std::int64_t count = std::max<std::int64_t>(
        std::min(rows.end, sizes_.queries) - std::clamp<std::int64_t>(rows.begin, 0, sizes_.queries), 0);
    const std::vector<std::int64_t> shape{batches, heads, count, sizes_.keys};
    const std::vector<std::int64_t> file_shape(shape.end() - inputs_.rank, shape.end());
    Array& weights = make("weights", inputs_.number_type, shape, file_shape);
    std::byte* data = weights.data();
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t h = 0; h < heads; ++h) {
        const Shape part{1, 1, count, sizes_.keys};
        const View out{data, weights.view().dtype, part, contiguous_strides(part), {}};
        outputs_.weights.push_back({first_batch + b, first_head + h, rows.begin, rows.end, out});
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
    const std::int64_t top_k = parse_within("attend: --top-k", arguments_.top_k, 1, sizes_.keys);
    statistics.top_k = static_cast<int>(top_k);
    statistics.top_indices = make_rows("topk", ElementType::i64, {top_k}).as<std::int64_t>().data();
    statistics.top_weights = make_rows("topk_weights", inputs_.number_type, {top_k}).view();
  }

  // A gradient has the shape of its array.
  View make_gradient(const std::string& name, const Array& of, std::int64_t rows = -1) {
    std::vector<std::int64_t> file_shape = of.shape();
    if (rows >= 0) file_shape[file_shape.size() - 2] = rows;
    return make(name, of.type(), of.shape(), file_shape, rows).view();
  }

  void prepare_backward() {
    for (const std::string& path : arguments_.grad)
      grad_out_.push_back(read_share("--grad", path, 2, false).to(element_type(inputs_.dtype)));
    gradients_.q = make_gradient("dq", inputs_.q, shared_rows(sizes_.queries));
    gradients_.k = make_gradient("dk", inputs_.k, shared_rows(sizes_.keys));
    for (std::size_t n = 0; n < inputs_.v.size(); ++n)
      gradients_.v.push_back(make_gradient(numbered("dv", n), inputs_.v[n], shared_rows(sizes_.keys)));
    const bool one_row = inputs_.bias && std::as_const(inputs_.bias).view().shape[2] == 1;
    if (inputs_.bias)
      gradients_.bias = make_gradient("dbias", inputs_.bias, one_row ? -1 : shared_rows(sizes_.queries));
    for (const auto* list : {&inputs_.parameters.of_mechanism, &inputs_.parameters.of_normalizer})
      for (const Parameter& parameter : *list)
        gradients_.parameters.push_back({parameter.name, make_gradient("d_" + parameter.name, parameter.value)});
  }

  const AttendArguments& arguments_;
  AttendInputs inputs_;
  std::unique_ptr<DeviceProcesses> processes_;
  const CallSizes& sizes_;
  std::uint64_t memory_;
  double reserved_ = 0;
  std::vector<Made> made_;
  std::vector<Array> grad_out_;
  Outputs outputs_;
  Gradients gradients_;
};

}  // namespace

AttendResult run_attend(const AttendArguments& arguments) {
  try {
    return Job(arguments).run();
  } catch (const Error& error) {
    throw Error(in_options(error.what()));
  }
}

}  // namespace rapt::cli
