#include "distributed/cost.h"
#include "distributed/ways.h"

namespace rapt::inline v1 {

using distributed::Call;
using distributed::Given;

void attend(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options, Communicator& communicator,
            const DistributedOptions& how) {
  Given given;
  given.inputs = &inputs;
  given.options = &options;
  given.outputs = &outputs;
  const Call call = distributed::agree("attend", given, communicator);
  const bool heads = distributed::choose(call, given, how) == Distribution::heads;
  if (call.whole.is_double)
    (heads ? distributed::heads_forward<double> : distributed::ring_forward<double>)(call, outputs);
  else (heads ? distributed::heads_forward<float> : distributed::ring_forward<float>)(call, outputs);
}

void attend_backward(const Inputs& inputs, const std::vector<ConstView>& out, const std::vector<ConstView>& grad_out,
                     const Saved* saved, const Gradients& gradients, const AttendOptions& options,
                     Communicator& communicator, const DistributedOptions& how, const ConstView& grad_lse) {
  Given given;
  given.inputs = &inputs;
  given.options = &options;
  given.out = &out;
  given.grad_out = &grad_out;
  given.saved = saved;
  given.gradients = &gradients;
  given.grad_lse = grad_lse;
  const Call call = distributed::agree("attend_backward", given, communicator);
  const bool heads = distributed::choose(call, given, how) == Distribution::heads;
  // Without the rows of the forward pass they are computed again.
  Saved again;
  const bool has_rows = saved && saved->rows() && saved->rows()->count > 0;
  if (saved == nullptr) {
    Outputs rows;
    rows.saved = &again;
    attend(inputs, rows, options, communicator,
           how.distribution == Distribution::automatic ? DistributedOptions{}
                                                       : DistributedOptions{how.distribution, nullptr});
  } else if (!has_rows) {
    again.rows()->resize(0, call.whole.is_double);
  }
  const Saved::Rows& rows = has_rows ? *saved->rows() : *again.rows();
  if (call.whole.is_double)
    (heads ? distributed::heads_backward<double> : distributed::ring_backward<double>)(call, given, rows);
  else (heads ? distributed::heads_backward<float> : distributed::ring_backward<float>)(call, given, rows);
}

}  // namespace rapt::inline v1
