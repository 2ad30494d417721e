#include "rapt/plan.h"

#include <string>

#include "attend/backend.h"
#include "attend/check.h"
#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {

// The addresses, lengths and positions that the plan was made with are `own`; the problem and the outputs have a run's.
struct Plan::Call {
  Call(const Inputs& inputs, const Outputs& wanted, const AttendOptions& options)
      : problem(make_problem("Plan", inputs, options)), outputs(wanted) {
    check_outputs("Plan", problem, outputs);
    choose_backend("Plan", problem, {.outputs = &outputs});
    if (outputs.saved) outputs.saved->rows()->resize(problem.row_count(), problem.is_double, problem.device);
    own.q = problem.q.data;
    own.k = problem.k.data;
    for (const Operand& v : problem.v) own_v.push_back(v.data);
    for (const View& out : outputs.out) own_out.push_back(out.data);
    own.v = own_v;
    own.out = own_out;
    own.lse = outputs.lse.data;
    own.row_max = outputs.row_max.data;
    own.row_sum = outputs.row_sum.data;
    own.bias = problem.bias.data;
    own.mask = static_cast<const std::uint8_t*>(problem.dense_mask.data);
    own_lengths = options.mask.key_lengths;
    own_first_query = options.first_query;
    problem.mask.key_lengths.reserve(static_cast<std::size_t>(problem.batch));
    problem.first_query.reserve(static_cast<std::size_t>(problem.batch));
    own.key_lengths = own_lengths;
    own.first_query = own_first_query;
    if (!problem.is_empty()) pass = problem.backend->forward(problem, outputs);
  }

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Refuses before it changes anything.
  void check(const PlanArrays& given) const {
    const auto place = [](bool wanted, const void* own_array, const char* name) {
      if (wanted && own_array == nullptr)
        throw Error(std::string("Plan: ") + name + ": expected none, as the plan was made without, got an array");
    };
    place(given.lse != nullptr, own.lse, "lse");
    place(given.row_max != nullptr, own.row_max, "row_max");
    place(given.row_sum != nullptr, own.row_sum, "row_sum");
    place(given.bias != nullptr, own.bias, "bias");
    place(given.mask != nullptr, own.mask, "mask");
    const auto count = [](std::size_t got, std::size_t expected, const char* name) {
      if (got != 0 && got != expected)
        throw Error(std::string("Plan: ") + name + ": expected " + counted(expected, "array") +
                    " as the plan has, got " + std::to_string(got));
    };
    count(given.v.size(), own.v.size(), "v");
    count(given.out.size(), own.out.size(), "out");
    for (const void* v : given.v)
      if (v == nullptr) throw Error("Plan: v: expected an array for every value set, got null");
    for (const void* out : given.out)
      if (out == nullptr) throw Error("Plan: out: expected an array for every value set, got null");
    const bool packed = !problem.mask.query_starts.empty();
    if (packed && !given.first_query.empty())
      throw Error("Plan: first_query: expected none with packed sequences, whose positions follow from their starts");
  }

  void run(const PlanArrays& given) {
    check(given);
    // Another call may have used it in between.
    if (outputs.saved) outputs.saved->rows()->resize(problem.row_count(), problem.is_double, problem.device);
    const auto lengths = given.key_lengths.empty() ? own.key_lengths : given.key_lengths;
    const auto first = given.first_query.empty() ? own.first_query : given.first_query;
    if (moved || !given.key_lengths.empty() || !given.first_query.empty()) {
      moved = true;  // until the plan's own are in their place again
      set_positions("Plan", problem, lengths, first);
      moved = !given.key_lengths.empty() || !given.first_query.empty();
    }
    const auto choose = [](auto* run_array, auto* own_array) { return run_array ? run_array : own_array; };
    problem.q.data = const_cast<void*>(choose(given.q, own.q));
    problem.k.data = const_cast<void*>(choose(given.k, own.k));
    for (std::size_t s = 0; s < own_v.size(); ++s)
      problem.v[s].data = const_cast<void*>(given.v.empty() ? own.v[s] : given.v[s]);
    for (std::size_t s = 0; s < own_out.size(); ++s)
      outputs.out[s].data = given.out.empty() ? own.out[s] : given.out[s];
    outputs.lse.data = choose(given.lse, own.lse);
    outputs.row_max.data = choose(given.row_max, own.row_max);
    outputs.row_sum.data = choose(given.row_sum, own.row_sum);
    problem.bias.data = const_cast<void*>(choose(given.bias, own.bias));
    problem.dense_mask.data = const_cast<std::uint8_t*>(choose(given.mask, own.mask));
    if (pass) pass->run();
  }

  Problem problem;
  Outputs outputs;
  std::unique_ptr<ForwardPass> pass;  // null: there is nothing to compute
  PlanArrays own;
  std::vector<const void*> own_v;
  std::vector<void*> own_out;
  std::vector<std::int64_t> own_lengths, own_first_query;
  bool moved = false;  // the problem has other lengths or positions than `own`
};

Plan::Plan(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options)
    : call_(std::make_unique<Call>(inputs, outputs, options)) {}

Plan::Plan(const ConstView& q, const ConstView& k, const ConstView& v, const View& out, const AttendOptions& options)
    : Plan(Inputs{q, k, {v}}, Outputs{.out = {out}}, options) {}

Plan::~Plan() = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;

void Plan::run(const PlanArrays& arrays) { call_->run(arrays); }

}  // namespace rapt::inline v1
