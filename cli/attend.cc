#include <filesystem>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "backends/mpi/session.h"
#include "cli/attend_job.h"
#include "cli/attend_rows.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/verbs.h"
#include "rapt/error.h"
#include "rapt/threads.h"
#include "tensor/files.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

constexpr const char* kAttendFooter =
    "Arrays are [S,D], [H,S,D] or [B,H,S,D]. Writes out.npy (out_1.npy … for further value sets), lse.npy\n"
    "and, on request, weights.npy; entropy.npy argmax.npy position.npy covariance.npy, with --top-k\n"
    "topk.npy topk_weights.npy; dq.npy dk.npy dv.npy (dv_1.npy …) dbias.npy d_PARAM.npy. Nothing is\n"
    "written if anything fails.\n"
    "\n"
    "Examples:\n"
    "  rapt attend --q q.npy --k k.npy --v v.npy --out result\n"
    "  rapt attend --q q.npy --k k.npy --v v.npy --score alibi --param m=0.5,0.25 \\\n"
    "    --causal top_left --out result\n"
    "  rapt attend --q q.npy --k k.npy --v v.npy --score additive --param w=w.npy --grad go.npy \\\n"
    "    --out result\n"
    "  rapt attend --q q.npy --k k.npy --v v.npy --formula 'raw*scale - m*abs(j-i)' \\\n"
    "    --param m=0.5,0.25 --out result\n"
    "  rapt attend --q q.npy --k k.npy --v v.npy --normalize sparsemax --weights --out result\n"
    "  rapt attend --q step.npy --k k.npy --v v.npy --score t5 --param table=t.npy \\\n"
    "    --first-query 99 --out result\n"
    "  mpirun -n 4 rapt attend --q q.npy --k k.npy --v v.npy --causal top_left --explain --out result\n";

// The element type of the file.
ElementType stored_type(const Array& array) {
  return array.type() == ElementType::bf16 ? ElementType::f32 : array.type();
}

void print_json(const AttendArguments& arguments, const AttendResult& result) {
  nlohmann::ordered_json summary;
  summary["mechanism"] = result.mechanism;
  summary["normalizer"] = result.normalizer;
  summary["dtype"] = name_of(result.dtype);
  summary["isa"] = name_of(active_isa());
  summary["threads"] = result.threads;
  summary["seconds"] = result.seconds;
  if (mpi::world()) summary["processes"] = mpi::world()->size();
  if (arguments.explain) summary["explanation"] = result.explanation;
  summary["directory"] = arguments.out;
  summary["files"] = nlohmann::ordered_json::array();
  for (const NamedArray& array : result.arrays)
    summary["files"].push_back(
        {{"name", array.name + ".npy"}, {"shape", array.shape}, {"dtype", name_of(stored_type(array.value))}});
  // The name of a directory need not be UTF-8.
  std::cout << summary.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void print_summary(const AttendArguments& arguments, const AttendResult& result) {
  std::cout << result.mechanism << ", " << result.normalizer << ", " << name_of(result.dtype) << ", "
            << name_of(active_isa()) << ", " << (mpi::world() ? counted(mpi::world()->size(), "process") + " of " : "")
            << counted(result.threads, "thread") << ": " << format_seconds(result.seconds) << "\n";
  if (arguments.explain) std::cout << result.explanation << "\n";
  std::vector<std::vector<std::string>> rows;
  for (const NamedArray& array : result.arrays)
    rows.push_back({(std::filesystem::path(arguments.out) / (array.name + ".npy")).string(),
                    name_of(stored_type(array.value)), to_string(array.shape)});
  std::cout << format_table(rows);
}

void run(const AttendArguments& arguments) {
  checked_by_process_0([&] { check_output_directory("attend: --out", arguments.out); });
  const AttendResult result = run_attend(arguments);
  StagedFiles files;
  if (!mpi::world() || mpi::world()->rank() == 0) files.make_directory(arguments.out);
  for (const NamedArray& array : result.arrays) {
    const std::filesystem::path path = std::filesystem::path(arguments.out) / (array.name + ".npy");
    if (mpi::world()) stage_share(files, path, array, *mpi::world());
    else stage_npy(files, path, array.value);
  }
  files.commit();
  if (arguments.json) print_json(arguments, result);
  else print_summary(arguments, result);
}

}  // namespace

void add_attend(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("attend", "Attention over .npy arrays, forward and backward");
  // Lives as long as the callback that captures it.
  auto arguments = std::make_shared<AttendArguments>();
  AttendArguments& a = *arguments;
  const auto option = [verb](const char* name, auto& target, const char* help, const std::string& takes) {
    return verb->add_option(name, target, help)->type_name(takes)->check(value_given());
  };

  option("--q", a.q, "Queries [.., Sq, Dq]", "Q.npy")->required();
  option("--k", a.k, "Keys [.., Sk, Dk]; may have fewer heads than q", "K.npy")->required();
  option("--v", a.v, "Values [.., Sk, Dv]; repeat for further value sets", "V.npy")->required();
  option("--out", a.out, "Directory for the results; created if missing", "DIR")->required();

  option("--score", a.score, "Mechanism, see rapt list [scaled_dot]", "NAME");
  option("--formula", a.formula, "The score as text, instead of --score; see docs/formulas.md", "EXPR");
  option("--pair", a.pair, "Of a formula: what each dimension (q, k, w) adds to raw [q*k]", "EXPR");
  option("--visible", a.visible, "Of a formula: which pairs are visible [all]", "EXPR");
  option("--param", a.parameters, "A parameter of the mechanism or of the normaliser",
         "NAME=FILE.npy|NUMBER[,NUMBER...]");
  option("--scale", a.scale, "Replaces 1/√Dk, or 1 where the formula has none", "X");
  option("--softcap", a.softcap, "c > 0: the score becomes c·tanh(score/c)", "X");
  option("--normalize", a.normalize, "How scores become weights [softmax]", normalizer_names());
  option("--bias", a.bias, "Added to the scores [.., Sq or 1, Sk]", "B.npy");

  option("--first-query", a.first_query, "Position of query 0, for all batches or for each [0]", "N[,N...]");
  option("--rotary", a.rotary, "Rotate the first DIMS elements of queries and keys by position [base 10000]",
         "DIMS[,BASE]");
  verb->add_flag("--rotary-interleaved", a.rotary_interleaved, "With --rotary: rotate adjacent elements together");
  option("--causal", a.causal, "Hide later keys; bottom_right: the last query is at the last key",
         "top_left|bottom_right");
  option("--window", a.window, "A query at position p sees keys p−L … p+R; -1: no limit", "L,R");
  option("--key-lengths", a.key_lengths, "Number of keys in use, for each batch or for all", "N,...");
  option("--query-starts", a.query_starts, "Packed sequences: 0, the further starts, the end", "N,...");
  option("--key-starts", a.key_starts, "The same for keys", "N,...");
  option("--mask", a.mask, "bool [.., Sq or 1, Sk]; true = attend", "M.npy");

  verb->add_flag("--weights", a.weights, "Write the weights");
  option("--weights-head", a.weights_head, "Only those of one batch and head", "B,H");
  option("--weights-rows", a.weights_rows, "Only those of rows A up to B", "A:B");
  verb->add_flag("--stats", a.stats, "Write each row's entropy, arg-max, expected position and its covariance");
  option("--top-k", a.top_k, "With --stats: write the N largest weights and their keys", "N");
  option("--grid", a.grid, "With --stats: the keys form a grid", "R,C");
  option("--grad", a.grad, "Gradient of the loss with respect to out, one per --v: runs the backward pass", "GO.npy");

  option("--device", a.device, "Where to compute [cpu]", "cpu|cuda");
  option("--dtype", a.dtype, "Type to compute in [the widest of the inputs]", "f32|f64|bf16|f16");
  option("--threads", a.threads, "Threads [all processors]", "N");
  option("--path", a.path, "generic: without specialised paths [auto]", "auto|generic");
  verb->add_flag("--reference", a.reference, "Use the naive path, which stores all scores; for checking");
  option("--distribution", a.distribution, "Under mpirun: what processes exchange [auto: by a cost model]",
         "auto|ring|heads");
  option("--transport", a.transport, "Under mpirun: how arrays on devices travel [nccl, where it is built]",
         "auto|nccl|mpi");
  verb->add_flag("--explain", a.explain, "Print how the call is split among processes, and why");
  verb->add_flag("--json", a.json, "Print the summary as JSON");
  verb->footer(kAttendFooter);
  verb->callback([arguments] { run(*arguments); });
}

}  // namespace rapt::cli
