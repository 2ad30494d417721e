#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "call.h"
#include "host_threads.h"
#include "jax.h"
#include "pictures/color.h"
#include "plan.h"
#include "rapt/attend.h"
#include "rapt/device.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "rapt/openmp.h"
#include "rapt/partial.h"
#include "rapt/registry.h"
#include "rapt/threads.h"
#include "saved.h"

// rapt._core: what Python cannot do itself. The modules in python/rapt are what users see.
namespace rapt::python {
namespace {

enum Want : int { kLse = 1, kParts = 2, kSaved = 4 };

// A call without values has weights and statistics alone.
nb::handle values(const ArrayReader& reader, nb::handle v) {
  if (v.is_none()) reader.fail_type("v: expected an array or a list of them, got None");
  return v;
}

// (out or a list of them, lse, row_max, row_sum, saved), with None for what is not wanted.
nb::tuple forward(const char* operation, nb::handle q, nb::handle k, nb::handle v, nb::handle allocate_with, int want,
                  nb::handle packed) {
  const ArrayReader reader(operation);
  const Allocator allocate(allocate_with);
  const Call call(reader, q, k, values(reader, v), packed);
  std::vector<Array> keep;
  keep.reserve(call.inputs.v.size() + 3);
  Outputs outputs;
  nb::list outs;
  for (const ConstView& set : call.inputs.v) {
    nb::object out =
        allocate({call.batch, call.heads, call.queries, set.shape[3]}, call.rank, numpy_name(call.output_type));
    outputs.out.push_back(read_output(reader, out, "out", keep));
    outs.append(std::move(out));
  }
  nb::object lse = nb::none(), row_max = nb::none(), row_sum = nb::none(), saved = nb::none();
  if ((want & kLse) != 0) lse = call.make_rows(reader, allocate, "lse", keep, outputs.lse);
  if ((want & kParts) != 0) {
    row_max = call.make_rows(reader, allocate, "row_max", keep, outputs.row_max);
    row_sum = call.make_rows(reader, allocate, "row_sum", keep, outputs.row_sum);
  }
  if ((want & kSaved) != 0) {
    saved = nb::type<SavedRows>()();
    auto& own = *nb::inst_ptr<SavedRows>(saved);
    if (call.inputs.q.device != Device{})  // in the library's own memory, which waits for no other work of the device
    {
      const std::int64_t rows = call.batch * call.heads * call.queries;
      const bool rounds = size_of(call.output_type) == 2 && call.inputs.v.size() == 1;
      const std::int64_t columns = rounds ? call.inputs.v[0].shape[3] : 0;
      own.lend(reader, allocate({1, 1, 1, device_floats(rows, columns)}, 1, "float32"), rows, 0, call.inputs.q.device);
    }
    outputs.saved = &own.rows;
  }
  run_released([&] { attend(call.inputs, outputs, call.options.value); });
  nb::object out = call.is_list ? nb::object(outs) : nb::object(outs[0]);
  return nb::make_tuple(out, lse, row_max, row_sum, saved);
}

// The plain case, which is short: one value set, nothing but out.
nb::object attend_plain(nb::handle q, nb::handle k, nb::handle v, nb::handle allocate_with, nb::handle packed) {
  const ArrayReader reader("attend");
  const Call call(reader, q, k, values(reader, v), packed);
  if (call.is_list) return forward("attend", q, k, v, allocate_with, 0, packed)[0];
  std::vector<Array> keep;
  nb::object object = Allocator(allocate_with)({call.batch, call.heads, call.queries, call.inputs.v[0].shape[3]},
                                               call.rank, numpy_name(call.output_type));
  Outputs outputs;
  outputs.out.push_back(read_output(reader, object, "out", keep));
  run_released([&] { attend(call.inputs, outputs, call.options.value); });
  return object;
}

// Which gradients are wanted, as Python packs them: q, k, v, bias, and the names of parameters.
nb::tuple backward(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle grad_out, nb::handle saved,
                   nb::handle grad_lse, nb::handle want, nb::handle allocate_with, nb::handle packed) {
  const ArrayReader reader("gradients");
  const Allocator allocate(allocate_with);
  const Call call(reader, q, k, values(reader, v), packed);
  std::vector<Array> keep;
  const auto read_sets = [&](nb::handle object, const char* name) {
    std::vector<ConstView> views;
    const auto add = [&](nb::handle set) {
      keep.push_back(reader.read(set, name));
      views.push_back(keep.back().view());
    };
    if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()))
      for (nb::handle set : nb::borrow<nb::sequence>(object)) add(set);
    else add(object);
    return views;
  };
  const std::vector<ConstView> outs = read_sets(out, "out"), grads = read_sets(grad_out, "grad_out");
  ConstView lse_view;
  if (!grad_lse.is_none()) {
    keep.push_back(reader.read(grad_lse, "grad_lse"));
    lse_view = keep.back().view();
    // [B, H, Sq] is read as [B, H, Sq, 1].
    const int rank = keep.back().rank();
    if (rank > 3) reader.fail("grad_lse: expected the shape of lse, [batch, heads, queries], got four dimensions");
    for (int n = 4 - rank; n < 4; ++n) {
      lse_view.shape[static_cast<std::size_t>(n - 1)] = lse_view.shape[static_cast<std::size_t>(n)];
      lse_view.strides[static_cast<std::size_t>(n - 1)] = lse_view.strides[static_cast<std::size_t>(n)];
    }
    lse_view.shape[3] = 1;
    lse_view.strides[3] = 1;
  }

  const auto wanted = nb::cast<nb::tuple>(want);
  Gradients gradients;
  const auto make = [&](const Array& array, const std::string& name, View& view) {
    const ConstView& like = array.view();
    nb::object object = allocate(like.shape, array.rank(), numpy_name(like.dtype));
    keep.push_back(reader.read_in_place(object, name));
    view = keep.back().writable(name);
    return object;
  };
  nb::object dq = nb::none(), dk = nb::none(), dv = nb::none(), dbias = nb::none();
  if (nb::cast<bool>(wanted[0])) dq = make(call.arrays[0], "gradient of q", gradients.q);
  if (nb::cast<bool>(wanted[1])) dk = make(call.arrays[1], "gradient of k", gradients.k);
  if (nb::cast<bool>(wanted[2])) {
    nb::list sets;
    for (std::size_t n = 0; n < call.inputs.v.size(); ++n) {
      gradients.v.emplace_back();
      sets.append(make(call.arrays[2 + n], "gradient of v", gradients.v.back()));
    }
    dv = call.is_list ? nb::object(sets) : nb::object(sets[0]);
  }
  if (nb::cast<bool>(wanted[3]) && call.options.bias)
    dbias = make(call.options.bias, "gradient of bias", gradients.bias);
  nb::dict of_parameters;
  const nb::object names = wanted[4];
  for (std::size_t n = 0; n < call.options.names.size(); ++n) {
    const std::string& name = call.options.names[n];
    if (!names.is_none() && !nb::cast<bool>(names.attr("__contains__")(name))) continue;
    gradients.parameters.push_back({name, {}});
    of_parameters[name.c_str()] =
        make(call.options.parameters[n], "gradient of " + name, gradients.parameters.back().value);
  }
  if (!saved.is_none() && !nb::isinstance<SavedRows>(saved))
    reader.fail_type("saved: expected rapt._core.Saved or None");
  const Saved* rows = saved.is_none() ? nullptr : &nb::inst_ptr<SavedRows>(saved)->rows;
  run_released([&] { attend_backward(call.inputs, outs, grads, rows, gradients, call.options.value, lse_view); });
  return nb::make_tuple(dq, dk, dv, dbias, of_parameters);
}

// The weights of batches [b0, b1), heads [h0, h1) and rows [r0, r1): [b1 − b0, h1 − h0, r1 − r0, Sk]. Negative ends: all.
nb::object weights(nb::handle q, nb::handle k, nb::handle v, nb::handle allocate_with,
                   const std::vector<std::int64_t>& range, nb::handle packed) {
  const ArrayReader reader("weights");
  const Call call(reader, q, k, v, packed);
  const auto end = [&](std::size_t n, std::int64_t all) { return range[n] < 0 ? all : range[n]; };
  const std::int64_t b1 = end(1, call.batch), h1 = end(3, call.heads), r1 = end(5, call.queries);
  const Shape shape = {b1 - range[0], h1 - range[2], r1 - range[4], call.keys};
  // Before anything of that size is made.
  const auto within = [&](const char* argument, const char* one, std::int64_t begin, std::int64_t last,
                          std::int64_t all) {
    if (last < begin) reader.fail(std::string(argument) + ": expected a range that does not end before it begins");
    if (last > all)
      reader.fail(std::string(argument) + ": expected a " + one + " from 0 to " + std::to_string(all - 1) + ", got " +
                  std::to_string(last - 1));
  };
  within("batch", "batch", range[0], b1, call.batch);
  within("head", "head", range[2], h1, call.heads);
  within("rows", "row", range[4], r1, call.queries);
  nb::object result = Allocator(allocate_with)(shape, 4, numpy_name(call.compute_type()));
  std::vector<Array> keep;
  const View view = read_output(reader, result, "weights", keep);
  Outputs outputs;
  for (std::int64_t b = range[0]; b < b1 && shape[2] > 0; ++b)
    for (std::int64_t h = range[2]; h < h1; ++h) {
      WeightsRequest request{b, h, range[4], r1, view};
      request.out.shape = {1, 1, shape[2], shape[3]};
      const std::int64_t offset = (b - range[0]) * view.strides[0] + (h - range[2]) * view.strides[1];
      request.out.data = static_cast<char*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.dtype));
      outputs.weights.push_back(request);
    }
  run_released([&] { attend(call.inputs, outputs, call.options.value); });
  return result;
}

// A dict of what was computed for every row.
nb::dict statistics(nb::handle q, nb::handle k, nb::handle v, nb::handle allocate_with, nb::handle allocate_integers,
                    nb::handle most, const std::vector<std::int64_t>& grid, nb::handle packed) {
  const ArrayReader reader("statistics");
  const Allocator allocate(allocate_with);
  const Call call(reader, q, k, v, packed);
  const std::int64_t top_k = integer(reader, most, "top_k");
  if (top_k < 0 || top_k > call.keys)
    reader.fail("top_k: expected 0 to " + std::to_string(call.keys) + ", got " + std::to_string(top_k));
  const bool on_grid = grid.size() == 2;
  std::vector<Array> keep;
  nb::dict result;
  Outputs outputs;
  Statistics& s = outputs.statistics;
  if (on_grid) s.grid = {grid[0], grid[1]};
  const auto rows = [&](const char* name, View& view, std::int64_t columns = 0) {
    result[name] = call.make_rows(reader, allocate, name, keep, view, columns);
  };
  // Integers are NumPy's in every case: [address, array].
  const auto integers = [&](const char* name, std::int64_t columns) {
    const nb::object made = allocate_integers(nb::make_tuple(call.batch, call.heads, call.queries), call.rank, columns);
    result[name] = made[0];
    return reinterpret_cast<std::int64_t*>(nb::cast<std::uintptr_t>(made[1]));
  };
  rows("lse", outputs.lse);
  rows("entropy", s.entropy);
  s.argmax = integers("argmax", 0);
  rows("position", s.position, on_grid ? 2 : 0);
  rows("covariance", s.covariance, on_grid ? 4 : 0);
  s.top_k = static_cast<int>(top_k);
  if (top_k > 0) {
    s.top_indices = integers("top_indices", top_k);
    rows("top_weights", s.top_weights, top_k);
  }
  run_released([&] { attend(call.inputs, outputs, call.options.value); });
  return result;
}

// Parts as tuples (out, row_max, row_sum): the whole as one, and its lse.
nb::tuple merge_parts(nb::handle parts, nb::handle allocate_with) {
  const ArrayReader reader("merge");
  const Allocator allocate(allocate_with);
  std::vector<Array> keep;
  keep.reserve(64);
  std::vector<Partial> list;
  int rank = 4;
  const auto rows = [&](nb::handle object, const char* name) {
    keep.push_back(reader.read(object, name));
    ConstView view = keep.back().view();
    if (keep.back().rank() > 3)
      reader.fail(std::string(name) + ": expected [batch, heads, queries], got four dimensions");
    for (std::size_t n = 0; n < 3; ++n) {
      view.shape[n] = view.shape[n + 1];
      view.strides[n] = view.strides[n + 1];
    }
    view.shape[3] = view.strides[3] = 1;
    return view;
  };
  for (nb::handle part : nb::borrow<nb::sequence>(parts)) {
    const nb::sequence three = nb::borrow<nb::sequence>(part);
    if (nb::len(three) != 3)
      reader.fail("parts: expected (out, row_max, row_sum), got " + std::to_string(nb::len(three)));
    Partial partial;
    keep.push_back(reader.read(three[0], "out"));
    partial.out = keep.back().view();
    rank = keep.back().rank();
    partial.row_max = rows(three[1], "row_max");
    partial.row_sum = rows(three[2], "row_sum");
    list.push_back(partial);
  }
  if (list.empty()) reader.fail("parts: expected at least one, got none");
  const Shape& shape = list[0].out.shape;
  Merged merged;
  nb::object out = allocate(shape, rank, numpy_name(list[0].out.dtype));
  merged.out = read_output(reader, out, "out", keep);
  const auto make_rows = [&](const char* name, View& view) {
    nb::object object = allocate({1, shape[0], shape[1], shape[2]}, rank - 1, numpy_name(list[0].row_max.dtype));
    view = read_output(reader, object, name, keep);
    view.shape = {shape[0], shape[1], shape[2], 1};
    view.strides = contiguous_strides(view.shape);
    return object;
  };
  nb::object row_max = make_rows("row_max", merged.row_max), row_sum = make_rows("row_sum", merged.row_sum);
  nb::object lse = make_rows("lse", merged.lse);
  const int threads = lent_threads();  // asks Python, so before its lock is released
  run_released([&] { merge(list, merged, threads); });
  return nb::make_tuple(out, row_max, row_sum, lse);
}

nb::dict describe(const ParameterSpec& spec) {
  nb::dict result;
  result["name"] = std::string(spec.name);
  result["per_head"] = spec.heads == Heads::required ? "required" : spec.heads == Heads::optional ? "optional" : "no";
  result["rank"] = spec.rank();
  result["required"] = spec.required;
  return result;
}

nb::list list_mechanisms() {
  nb::list result;
  for (const MechanismInfo* info : all_mechanisms()) {
    nb::dict entry;
    entry["name"] = std::string(info->name());
    entry["formula"] = std::string(info->formula());
    nb::list parameters, settings;
    for (const ParameterSpec& spec : info->parameters()) parameters.append(describe(spec));
    for (const SettingSpec& spec : info->settings()) {
      nb::dict setting;
      setting["name"] = std::string(spec.name);
      setting["value"] = spec.value;
      setting["low"] = spec.low;
      setting["high"] = spec.high;
      settings.append(setting);
    }
    entry["parameters"] = parameters;
    entry["settings"] = settings;
    entry["grid"] = info->grid();
    result.append(entry);
  }
  return result;
}

// What a formula takes, as describe() says it.
nb::list formula_parameters(const std::string& score, const std::string& pair, const std::string& visible) {
  const Score made = formula(score, {.pair = pair, .visible = visible});
  nb::list result;
  for (const ParameterSpec& spec : made.mechanism->parameters()) result.append(describe(spec));
  return result;
}

nb::list list_normalizers() {
  nb::list result;
  for (const NormalizerInfo& info : all_normalizers()) {
    nb::dict entry;
    entry["name"] = std::string(info.name);
    entry["formula"] = std::string(info.formula);
    nb::list parameters;
    for (const ParameterSpec& spec : info.parameters) parameters.append(describe(spec));
    entry["parameters"] = parameters;
    result.append(entry);
  }
  return result;
}

void bind_module(nb::module_& m) {
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const rapt::Error& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
  });
  install_signal_check();

  nb::class_<SavedRows>(m, "Saved", "Two numbers for every row, from the forward pass to the backward pass.")
      .def(nb::init<>())
      .def("__len__", &SavedRows::count)
      .def("store", [](const SavedRows& self, nb::handle rows) { self.store(ArrayReader("Saved"), rows); })
      .def("load", [](SavedRows& self, nb::object rows, std::int64_t count,
                      std::int64_t columns) { self.load(ArrayReader("Saved"), std::move(rows), count, columns); })
      .def_prop_ro("memory", &SavedRows::lent);
  bind_plan(m);
  bind_jax(m);
  const auto given = nb::arg();
  const auto maybe = nb::arg().none();
  // None is no array, and is refused with a sentence.
  m.def("attend", &attend_plain, maybe, maybe, maybe, given, maybe);
  m.def("forward", &forward, given, maybe, maybe, maybe, given, given, maybe);
  m.def("backward", &backward, maybe, maybe, maybe, maybe, maybe, maybe, maybe, given, given, maybe);
  m.def("weights", &weights, maybe, maybe, maybe, given, given, maybe);
  m.def("statistics", &statistics, maybe, maybe, maybe, given, given, given, given, maybe);
  m.def("merge", &merge_parts);
  m.def("mechanisms", &list_mechanisms);
  m.def("formula_parameters", &formula_parameters);
  m.def("normalizers", &list_normalizers);
  m.def("use_openmp", &use_openmp);
  m.def("use_own_threads", &use_own_threads);
  m.def("use_openmp_threads", [](const std::string& folder) { return rapt::use_openmp_threads(folder); });
  // The address of a rapt::HostThreads, which works without Python's lock.
  m.def("use_host_threads", [](std::uintptr_t run) { rapt::use_host_threads(reinterpret_cast<HostThreads>(run)); });
  m.def("lent_threads", &lent_threads);
  m.def("default_threads", &rapt::default_threads);
  m.def("set_default_threads", &rapt::set_default_threads);
  m.def("release_workspace", &rapt::release_workspace);
  m.def("device_floats", &device_floats);
  m.def("palette", [] {  // 256 colours, three bytes each
    std::string bytes;
    for (int n = 0; n < 256; ++n) {
      const rapt::pictures::Rgb color = rapt::pictures::color_at(n / 255.0);
      for (const std::uint8_t part : {color.red, color.green, color.blue}) bytes += static_cast<char>(part);
    }
    return nb::bytes(bytes.data(), bytes.size());
  });
  m.def("cuda_devices", [] { return rapt::device_count(rapt::Device::Kind::cuda); });
  m.def("isa", [] { return std::string(rapt::name_of(rapt::active_isa())); });
}

}  // namespace
}  // namespace rapt::python

NB_MODULE(_core, m) { rapt::python::bind_module(m); }
