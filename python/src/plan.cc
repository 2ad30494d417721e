#include "plan.h"

#include <memory>
#include <mutex>

#include "call.h"
#include "rapt/plan.h"

namespace rapt::python {
namespace {

// A plan with the arrays that it was made with. Arrays of a run must look like them. None is copied: what the caller writes
// into an array later is what the next run reads.
class PreparedCall {
 public:
  PreparedCall(nb::handle q, nb::handle k, nb::handle v, nb::handle allocate_with, nb::handle packed)
      : reader_("Plan", false), call_(reader_, q, k, v, packed), allocate_(nb::borrow(allocate_with)) {
    Outputs outputs;
    for (const ConstView& set : call_.inputs.v) {
      outs_.append(Allocator(allocate_)({call_.batch, call_.heads, call_.queries, set.shape[3]}, call_.rank,
                                        numpy_name(call_.output_type)));
      outputs.out.push_back(read_output(reader_, outs_[nb::len(outs_) - 1], "out", keep_));
    }
    outs_views_ = outputs.out;
    plan_ = std::make_unique<Plan>(call_.inputs, outputs, call_.options.value);
  }

  // Everything may be None: as it was.
  nb::object run(nb::handle q, nb::handle k, nb::handle v, nb::handle key_lengths, nb::handle first_query,
                 nb::handle bias, nb::handle mask, nb::handle out) {
    std::vector<Array> keep;
    PlanArrays arrays;
    const auto moved = [&](nb::handle object, const ConstView& like, const char* name) -> const void* {
      keep.push_back(reader_.read(object, name));
      same(keep.back().view(), like, name);
      return keep.back().view().data;
    };
    if (!q.is_none()) arrays.q = moved(q, call_.inputs.q, "q");
    if (!k.is_none()) arrays.k = moved(k, call_.inputs.k, "k");
    std::vector<const void*> values;
    if (!v.is_none()) {
      const auto add = [&](nb::handle set) {
        if (values.size() == call_.inputs.v.size())
          reader_.fail("v: expected as many value sets as the plan has, got more");
        values.push_back(moved(set, call_.inputs.v[values.size()], "v"));
      };
      if (PyList_Check(v.ptr()) || PyTuple_Check(v.ptr()))
        for (nb::handle set : nb::borrow<nb::sequence>(v)) add(set);
      else add(v);
      arrays.v = values;
    }
    if (!bias.is_none()) arrays.bias = moved(bias, call_.options.value.bias, "bias");
    if (!mask.is_none()) {
      const BoolView given = reader_.read_mask(mask, "mask", keep);
      const BoolView& like = call_.options.value.mask.dense;
      same({given.data, Dtype::f32, given.shape, given.strides, given.device},
           {like.data, Dtype::f32, like.shape, like.strides, like.device}, "mask");
      arrays.mask = given.data;
    }
    nb::object result = call_.is_list ? nb::object(outs_) : nb::object(outs_[0]);
    std::vector<void*> written;
    if (!out.is_none()) {
      if (call_.is_list) reader_.fail("out: expected one value set, got a plan with a list of them");
      const View view = read_output(reader_, out, "out", keep);
      same(view, outs_views_[0], "out");
      written.push_back(view.data);
      arrays.out = written;
      result = nb::borrow(out);
    }
    std::vector<std::int64_t> lengths, positions;
    if (!key_lengths.is_none()) lengths = read_numbers(reader_, key_lengths, "key_lengths");
    if (!first_query.is_none()) positions = read_numbers(reader_, first_query, "first_query");
    arrays.key_lengths = lengths;
    arrays.first_query = positions;
    const std::unique_lock busy(running_, std::try_to_lock);
    if (!busy.owns_lock()) reader_.fail("run: expected one run of a plan at a time, got a second one");
    run_released([&] { plan_->run(arrays); });
    return result;
  }

 private:
  void same(const ConstView& given, const ConstView& like, const std::string& name) const {
    bool fits = given.dtype == like.dtype && given.shape == like.shape && given.device == like.device && like.data;
    for (std::size_t n = 0; n < 4; ++n) fits = fits && (like.shape[n] <= 1 || given.strides[n] == like.strides[n]);
    if (!fits)
      reader_.fail(name + ": expected " + numpy_name(like.dtype) + " " + to_string(like.shape) + " with strides " +
                   to_string(like.strides) + " as the plan has, got " + numpy_name(given.dtype) + " " +
                   to_string(given.shape) + " with strides " + to_string(given.strides));
  }

  ArrayReader reader_;
  Call call_;
  nb::object allocate_;
  nb::list outs_;
  std::vector<View> outs_views_;
  std::vector<Array> keep_;
  std::mutex running_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace

void bind_plan(nb::module_& m) {
  const auto given = nb::arg();
  const auto maybe = nb::arg().none();
  nb::class_<PreparedCall>(m, "Plan")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(), given, given, given, given, maybe)
      .def("run", &PreparedCall::run, maybe, maybe, maybe, maybe, maybe, maybe, maybe, maybe);
}

}  // namespace rapt::python
