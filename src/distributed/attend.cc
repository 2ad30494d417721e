#include <algorithm>

#include "distributed/cost.h"
#include "distributed/ways.h"

namespace rapt::inline v1 {

using distributed::Call;
using distributed::Given;

namespace {

// What `rows` keep of the outputs, instead of those that were rounded.
std::vector<ConstView> unrounded(const std::vector<ConstView>& out, const Saved::Rows& rows) {
  std::vector<ConstView> list = out;
  for (std::size_t s = 0; s < list.size() && rows.has_wide_out; ++s) {
    if (!distributed::has_16_bits(list[s].dtype)) continue;
    list[s].dtype = Dtype::f32;
    list[s].strides = contiguous_strides(list[s].shape);
    list[s].data = rows.wide_out.at(s).empty() ? list[s].data : rows.wide_out[s].data();
  }
  return list;
}

}  // namespace

void attend(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options, Communicator& communicator,
            const DistributedOptions& how) {
  Given given;
  given.distribution = how.distribution;
  given.inputs = &inputs;
  given.options = &options;
  given.outputs = &outputs;
  const Call call = distributed::agree("attend", given, communicator);
  if (call.in_steps()) {
    distributed::choose_steps(call, how);
    return distributed::steps_forward(call, outputs);
  }
  const bool heads = distributed::choose(call, given, how) == Distribution::heads;
  if (call.whole.is_double)
    (heads ? distributed::heads_forward<double> : distributed::ring_forward<double>)(call, outputs);
  else (heads ? distributed::heads_forward<float> : distributed::ring_forward<float>)(call, outputs);
}

void attend_backward(const Inputs& inputs, const std::vector<ConstView>& out, const std::vector<ConstView>& grad_out,
                     const Saved* saved, const Gradients& gradients, const AttendOptions& options,
                     Communicator& communicator, const DistributedOptions& how, const ConstView& grad_lse) {
  Given given;
  given.distribution = how.distribution;
  given.inputs = &inputs;
  given.options = &options;
  given.out = &out;
  given.grad_out = &grad_out;
  given.saved = saved;
  given.gradients = &gradients;
  given.grad_lse = grad_lse;
  const Call call = distributed::agree("attend_backward", given, communicator);
  if (call.in_steps()) {
    distributed::choose_steps(call, how);
    return distributed::steps_backward(call, given);
  }
  const bool heads = distributed::choose(call, given, how) == Distribution::heads;
  // Without the rows of the forward pass they are computed again, and so is what was rounded.
  Saved again;
  std::vector<std::vector<std::byte>> out_again;
  const bool has_rows = saved && saved->rows();
  if (saved == nullptr && call.is_additive) {
    again.rows()->resize(call.whole.batch * call.whole.heads * inputs.q.shape[2], call.whole.is_double);
  } else if (saved == nullptr) {
    Outputs rows;
    rows.saved = &again;
    const bool rounded = std::ranges::any_of(out, [](const ConstView& v) { return distributed::has_16_bits(v.dtype); });
    for (const ConstView& view : rounded ? out : std::vector<ConstView>{}) {
      auto& bytes = out_again.emplace_back((static_cast<std::size_t>(element_count(view.shape)) + 1) * sizeof(double));
      rows.out.push_back({bytes.data(), view.dtype, view.shape, contiguous_strides(view.shape), {}});
    }
    attend(inputs, rows, options, communicator,
           how.distribution == Distribution::automatic ? DistributedOptions{}
                                                       : DistributedOptions{how.distribution, nullptr});
  } else if (!has_rows) {
    again.rows()->resize(0, call.whole.is_double);
  }
  const Saved::Rows& rows = has_rows ? *saved->rows() : *again.rows();
  const std::vector<ConstView> wide = unrounded(out, rows);
  given.out = &wide;
  if (call.whole.is_double)
    (heads ? distributed::heads_backward<double> : distributed::ring_backward<double>)(call, given, rows);
  else (heads ? distributed::heads_backward<float> : distributed::ring_backward<float>)(call, given, rows);
}

}  // namespace rapt::inline v1
