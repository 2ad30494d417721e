#include "cli/attend_inputs.h"

#include <algorithm>
#include <utility>

#include "cli/options.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

std::string argument(const std::string& option) { return "attend: " + option; }

Dtype default_dtype(const std::vector<const Array*>& arrays) {
  const auto any = [&](auto&& holds) { return std::any_of(arrays.begin(), arrays.end(), holds); };
  if (any([](const Array* a) { return a->type() == ElementType::f64; })) return Dtype::f64;
  if (any([](const Array* a) { return a->type() != ElementType::f16; })) return Dtype::f32;
  return Dtype::f16;
}

template <class T>
void take_flags(const std::string& path, const Array& array, std::span<bool> flags) {
  const std::span<const T> source = array.as<T>();
  for (std::size_t n = 0; n < source.size(); ++n) {
    if (source[n] != T(0) && source[n] != T(1))
      throw Error("attend: --mask '" + path + "': got the number " + std::to_string(source[n]) +
                  "; takes bool, or whole numbers 0 and 1");
    flags[n] = source[n] != T(0);
  }
}

// Booleans as they are; whole numbers where all are 0 or 1.
Array to_boolean(const std::string& path, Array array) {
  if (array.type() == ElementType::boolean) return array;
  Array result(ElementType::boolean, array.shape());
  const std::span<bool> flags = result.as<bool>();
  switch (array.type()) {
    case ElementType::i8: take_flags<std::int8_t>(path, array, flags); break;
    case ElementType::i16: take_flags<std::int16_t>(path, array, flags); break;
    case ElementType::i32: take_flags<std::int32_t>(path, array, flags); break;
    case ElementType::i64: take_flags<std::int64_t>(path, array, flags); break;
    case ElementType::u8: take_flags<std::uint8_t>(path, array, flags); break;
    case ElementType::u16: take_flags<std::uint16_t>(path, array, flags); break;
    case ElementType::u32: take_flags<std::uint32_t>(path, array, flags); break;
    case ElementType::u64: take_flags<std::uint64_t>(path, array, flags); break;
    default:
      throw Error("attend: --mask '" + path + "': got " + name_of(array.type()) +
                  "; takes bool, true = attend (numbers that are added to the scores go to --bias)");
  }
  return result;
}

BoolView bool_view(const Array& array) {
  BoolView view;
  view.data = reinterpret_cast<const std::uint8_t*>(array.data());
  view.shape = {1, 1, 1, 1};
  std::copy_backward(array.shape().begin(), array.shape().end(), view.shape.end());
  view.strides = contiguous_strides(view.shape);
  return view;
}

void check_broadcast(const std::string& option, const Array& array, std::int64_t batch, std::int64_t heads) {
  const Shape shape = array.view().shape;
  if (shape[0] != 1 && shape[0] != batch)
    throw Error(argument(option) + ": got shape " + to_string(array.shape()) + "; takes a batch of 1 or " +
                std::to_string(batch) + ", that of the other arrays");
  if (heads % shape[1] != 0)
    throw Error(argument(option) + ": got shape " + to_string(array.shape()) +
                "; takes a number of heads that divides " + std::to_string(heads) + ", that of the other arrays");
}

// DIMS or DIMS,BASE.
void read_rotary(const std::string& name, const std::string& text, Rotary& rotary) {
  if (text.empty()) return;
  const char* takes = "DIMS or DIMS,BASE: an even number of dimensions, and a number above 0";
  const std::size_t comma = text.find(',');
  rotary.dims = parse_integers(name, text.substr(0, comma), takes, 1)[0];
  if (comma != std::string::npos) rotary.base = parse_number(name, text.substr(comma + 1), takes);
  if (rotary.dims < 2 || rotary.dims % 2 != 0 || !(rotary.base > 0)) refuse(name, text, takes);
}

}  // namespace

Array read_input(const std::string& option, const std::string& path, int lowest_rank, int highest_rank) {
  Array array;
  try {
    array = read_npy(path);
  } catch (const Error& error) {
    throw Error(argument(option) + ": " + error.what());
  }
  const std::string got = argument(option) + " '" + path + "': got shape " + to_string(array.shape());
  if (array.rank() < lowest_rank || array.rank() > highest_rank)
    throw Error(got + "; takes " + std::to_string(lowest_rank) + " to " + std::to_string(highest_rank) + " dimensions");
  if (array.count() == 0) throw Error(got + "; takes sizes from 1");
  return array;
}

AttendInputs::AttendInputs(const AttendArguments& arguments) {
  options.path =
      parse_choice<Path>(argument("--path"), arguments.path, {{"auto", Path::automatic}, {"generic", Path::generic}});
  if (arguments.reference && options.path == Path::generic)
    throw Error("attend: --reference and --path generic exclude each other");
  if (arguments.reference) options.path = Path::reference;
  // What needs no file is checked first: a wrong name should not wait for a large array.
  const MechanismInfo& info = mechanism(arguments.score);
  if (!arguments.threads.empty()) options.threads = parse_threads(argument("--threads"), arguments.threads);
  read_options(arguments);
  read_arrays(arguments);
  find_sizes();
  score = read_score("attend", info, read_normalizer_parameters(arguments.parameters), sizes, number_type);
  read_mask(arguments);
  read_grid(arguments);
  options.score = score.score();
}

void AttendInputs::read_arrays(const AttendArguments& arguments) {
  q = read_input("--q", arguments.q, 2, 4);
  k = read_input("--k", arguments.k, 2, 4);
  for (const std::string& path : arguments.v) v.push_back(read_input("--v", path, 2, 4));
  std::vector<const Array*> arrays{&q, &k};
  for (const Array& array : v) arrays.push_back(&array);
  dtype = arguments.dtype.empty() ? default_dtype(arrays) : parse_dtype(argument("--dtype"), arguments.dtype);
  number_type = dtype == Dtype::f64 ? ElementType::f64 : ElementType::f32;
  for (const Array* array : arrays) rank = std::max(rank, array->rank());
  const ElementType type = element_type(dtype);
  q = std::move(q).to(type);
  k = std::move(k).to(type);
  for (Array& array : v) array = std::move(array).to(type);
  if (arguments.bias.empty()) return;
  bias = read_input("--bias", arguments.bias, 2, 4);
  if (bias.type() == ElementType::boolean)
    throw Error("attend: --bias '" + arguments.bias + "': got bool; takes numbers (true = attend goes to --mask)");
  bias = std::move(bias).to(number_type);
}

void AttendInputs::find_sizes() {
  const Shape q_shape = std::as_const(q).view().shape;
  const Shape k_shape = std::as_const(k).view().shape;
  batch = std::max(q_shape[0], k_shape[0]);
  sizes.heads = std::max(q_shape[1], k_shape[1]);
  for (const Array& array : v) {
    const Shape shape = array.view().shape;
    batch = std::max(batch, shape[0]);
    sizes.heads = std::max(sizes.heads, shape[1]);
  }
  check_broadcast("--q", q, batch, sizes.heads);
  check_broadcast("--k", k, batch, sizes.heads);
  for (const Array& array : v) check_broadcast("--v", array, batch, sizes.heads);
  sizes.queries = q_shape[2];
  sizes.query_dim = q_shape[3];
  sizes.keys = k_shape[2];
  sizes.key_dim = k_shape[3];
}

void AttendInputs::read_options(const AttendArguments& arguments) {
  if (!arguments.dtype.empty()) parse_dtype(argument("--dtype"), arguments.dtype);
  if (!arguments.scale.empty()) options.scale = parse_number(argument("--scale"), arguments.scale, "a finite number");
  if (!arguments.softcap.empty()) {
    options.softcap = parse_number(argument("--softcap"), arguments.softcap, "a number above 0, or 0 for none");
    if (options.softcap < 0) refuse(argument("--softcap"), arguments.softcap, "a number above 0, or 0 for none");
  }
  options.normalizer = parse_normalizer(argument("--normalize"), arguments.normalize);
  if (!arguments.first_query.empty())
    options.first_query =
        parse_integers(argument("--first-query"), arguments.first_query, "one whole number, or one for each batch");
  read_rotary(argument("--rotary"), arguments.rotary, options.rotary);
  options.rotary.interleaved = arguments.rotary_interleaved;
  if (arguments.rotary_interleaved && arguments.rotary.empty())
    throw Error("attend: --rotary-interleaved: expected --rotary beside it, got none");
  if (arguments.device != "cpu")
    refuse(argument("--device"), arguments.device, "cpu, the only device that this build has a backend for");
  Mask& parts = options.mask;
  if (!arguments.causal.empty())
    parts.causal = parse_choice<Causal>(argument("--causal"), arguments.causal,
                                        {{"top_left", Causal::top_left}, {"bottom_right", Causal::bottom_right}});
  if (!arguments.window.empty()) {
    const char* takes = "LEFT,RIGHT: two whole numbers from -1, where -1 is no limit";
    const auto window = parse_integers(argument("--window"), arguments.window, takes, 2);
    if (window[0] < -1 || window[1] < -1) refuse(argument("--window"), arguments.window, takes);
    parts.window = Window{window[0], window[1]};
  }
  if (arguments.query_starts.empty() != arguments.key_starts.empty())
    throw Error("attend: --query-starts and --key-starts go together; got one of them");
  const char* starts = "whole numbers: 0, the start of each further sequence, and the end of the last";
  if (!arguments.query_starts.empty()) {
    parts.query_starts = parse_integers(argument("--query-starts"), arguments.query_starts, starts);
    parts.key_starts = parse_integers(argument("--key-starts"), arguments.key_starts, starts);
  }
  if (!arguments.stats && !arguments.top_k.empty()) throw Error("attend: --top-k is given without --stats; takes both");
}

std::vector<std::string> AttendInputs::read_normalizer_parameters(const std::vector<std::string>& assignments) {
  std::vector<std::string> others;
  const auto specs = info_of(options.normalizer).parameters;
  for (const std::string& assignment : assignments) {
    const std::string name = assignment.substr(0, assignment.find('='));
    const auto same = [&](const ParameterSpec& spec) { return spec.name == name; };
    if (name.size() == assignment.size() || std::ranges::none_of(specs, same)) others.push_back(assignment);
    else
      normalizer_parameters.push_back(
          {name, read_numbers(argument("--param " + name), assignment.substr(name.size() + 1), number_type)});
  }
  for (const Parameter& parameter : normalizer_parameters)
    options.normalizer_parameters.push_back({parameter.name, parameter.value.view()});
  return others;
}

void AttendInputs::read_mask(const AttendArguments& arguments) {
  if (!arguments.key_lengths.empty()) {
    const std::string takes = "one whole number for each of " + std::to_string(batch) +
                              " batches, or one for all, from 0 to " + std::to_string(sizes.keys);
    std::vector<std::int64_t> lengths = parse_integers(argument("--key-lengths"), arguments.key_lengths, takes);
    if (lengths.size() == 1) lengths.resize(static_cast<std::size_t>(batch), lengths[0]);
    const bool good = std::all_of(lengths.begin(), lengths.end(),
                                  [&](std::int64_t length) { return length >= 0 && length <= sizes.keys; });
    if (!good || lengths.size() != static_cast<std::size_t>(batch))
      refuse(argument("--key-lengths"), arguments.key_lengths, takes);
    options.mask.key_lengths = std::move(lengths);
  }
  if (!arguments.mask.empty()) {
    mask = to_boolean(arguments.mask, read_input("--mask", arguments.mask, 1, 4));
    options.mask.dense = bool_view(mask);
  }
  if (bias) options.bias = std::as_const(bias).view();
}

void AttendInputs::read_grid(const AttendArguments& arguments) {
  const bool mechanism_grid = score.mechanism->grid();
  if (!arguments.grid.empty()) {
    const std::string takes = "ROWS,COLS whose product is the number of keys, " + std::to_string(sizes.keys);
    const auto given = parse_integers(argument("--grid"), arguments.grid, takes, 2);
    if (given[0] < 1 || given[1] < 1 || given[0] > sizes.keys || given[1] > sizes.keys ||
        given[0] * given[1] != sizes.keys)
      refuse(argument("--grid"), arguments.grid, takes);
    grid = {given[0], given[1]};
    if (!mechanism_grid && !arguments.stats) throw Error("attend: --grid is given without --stats; takes both");
    if (mechanism_grid && score.grid[0] > 0 && score.grid != grid)
      throw Error("attend: --grid: got " + arguments.grid + ", but --param grid is " + std::to_string(score.grid[0]) +
                  "," + std::to_string(score.grid[1]) + "; takes the same");
    if (mechanism_grid) score.grid = grid;
  } else if (mechanism_grid) {
    grid = score.grid;
  }
  if (mechanism_grid && grid[0] < 1)
    throw Error("attend: --param grid is missing; " + std::string(score.mechanism->name()) + " takes grid=rows,cols");
}

Inputs AttendInputs::views() const {
  Inputs inputs{q.view(), k.view(), {}};
  for (const Array& array : v) inputs.v.push_back(array.view());
  return inputs;
}

std::vector<std::int64_t> AttendInputs::leading(std::int64_t queries) const {
  const std::vector<std::int64_t> all{batch, sizes.heads, queries};
  return {all.end() - (rank - 1), all.end()};
}

}  // namespace rapt::cli
