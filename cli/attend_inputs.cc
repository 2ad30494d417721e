#include "cli/attend_inputs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attend/counted.h"
#include "attend/problem.h"
#include "backends/mpi/session.h"
#include "cli/attend_errors.h"
#include "cli/options.h"
#include "rapt/distributed.h"
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
      throw Error("attend: --mask '" + path + "': expected bool, or integers 0 and 1, got " +
                  std::to_string(source[n]));
    flags[n] = source[n] != T(0);
  }
}

// Booleans, or whole numbers that are all 0 or 1.
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
      throw Error("attend: --mask '" + path +
                  "': expected bool, true = attend (numbers to add to the scores go to --bias), got " +
                  name_of(array.type()));
  }
  return result;
}

void check_rank(const std::string& option, const std::string& path, const std::vector<std::int64_t>& shape, int lowest,
                int highest) {
  const auto rank = static_cast<int>(shape.size());
  if (rank < lowest || rank > highest)
    throw Error(argument(option) + " '" + path + "': expected " + std::to_string(lowest) + " to " +
                counted(highest, "dimension") + ", got shape " + to_string(shape));
}

BoolView bool_view(const Array& array) {
  BoolView view;
  view.data = reinterpret_cast<const std::uint8_t*>(array.data());
  view.shape = {1, 1, 1, 1};
  std::copy_backward(array.shape().begin(), array.shape().end(), view.shape.end());
  view.strides = contiguous_strides(view.shape);
  return view;
}

}  // namespace

Array read_input(const std::string& option, const std::string& path, int lowest_rank, int highest_rank) {
  Array array;
  try {
    array = read_npy(path);
  } catch (const Error& error) {
    throw Error(argument(option) + ": " + error.what());
  }
  check_rank(option, path, array.shape(), lowest_rank, highest_rank);
  return array;
}

Array read_share(const std::string& option, const std::string& path, int lowest_rank, bool may_be_one,
                 std::int64_t* rows) {
  const Communicator* world = mpi::world();
  if (!world) {
    Array array = read_input(option, path, lowest_rank, 4);
    if (rows) *rows = array.shape()[static_cast<std::size_t>(array.rank() - 2)];
    return array;
  }
  const auto choose = [&](const std::vector<std::int64_t>& shape) {
    check_rank(option, path, shape, lowest_rank, 4);
    if (shape.size() < 2) return std::vector<RowRange>{};
    const std::int64_t all = shape[shape.size() - 2];
    if (rows) *rows = all;
    if (may_be_one && all == 1) return std::vector<RowRange>{{0, 1}};
    const Share share = share_of(all, world->rank(), world->size());
    return std::vector<RowRange>{{share.early_begin, share.early_end}, {share.late_begin, share.late_end}};
  };
  try {
    return read_npy_rows(path, choose);
  } catch (const Error& error) {
    const std::string message = error.what();
    throw Error(message.starts_with("read '") ? argument(option) + ": " + message : message);
  }
}

AttendInputs::AttendInputs(const AttendArguments& arguments) {
  options.path =
      parse_choice<Path>(argument("--path"), arguments.path, {{"auto", Path::automatic}, {"generic", Path::generic}});
  if (arguments.reference && options.path == Path::generic)
    throw Error("attend: expected --reference or --path generic, got both");
  if (arguments.reference) options.path = Path::reference;
  // Cheap checks first: a misspelt name should not wait for a large array to be read.
  options.score = read_score("attend", arguments.score,
                             {.score = arguments.formula, .pair = arguments.pair, .visible = arguments.visible});
  options.normalizer = normalizer(arguments.normalize);
  if (!arguments.threads.empty()) options.threads = parse_threads(argument("--threads"), arguments.threads);
  read_options(arguments);
  read_arrays(arguments);
  find_sizes();
  parameters =
      read_parameters(*options.score.mechanism, info_of(options.normalizer), arguments.parameters, sizes, number_type);
  for (const Parameter& p : parameters.of_mechanism) options.score.parameters.push_back({p.name, p.value.view()});
  for (const Parameter& p : parameters.of_normalizer) options.normalizer_parameters.push_back({p.name, p.value.view()});
  options.score.settings = parameters.settings;
  options.score.grid = parameters.grid;
  if (!arguments.mask.empty()) {
    mask = to_boolean(arguments.mask, read_share("--mask", arguments.mask, 1, true));
    options.mask.dense = bool_view(mask);
  }
  if (bias) options.bias = bias.view();
  read_grid(arguments);
}

void AttendInputs::check() const {
  try {
    make_problem("attend", views(), options);
  } catch (const Error& error) {
    throw Error(in_options(error.what()));
  }
}

void AttendInputs::read_arrays(const AttendArguments& arguments) {
  q = read_share("--q", arguments.q, 2, false, &queries_);
  k = read_share("--k", arguments.k, 2, false, &keys_);
  for (const std::string& path : arguments.v) v.push_back(read_share("--v", path, 2, false));
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
  bias = read_share("--bias", arguments.bias, 2, true);
  if (bias.type() == ElementType::boolean)
    throw Error("attend: --bias '" + arguments.bias + "': expected numbers (true = attend goes to --mask), got bool");
  bias = std::move(bias).to(number_type);
}

// attend() computes them the same way, unless it refuses the arrays.
void AttendInputs::find_sizes() {
  std::vector<const Array*> arrays{&q, &k};
  for (const Array& array : v) arrays.push_back(&array);
  const auto widen = [](std::int64_t& size, std::int64_t own) { size = size == 1 ? own : size; };
  for (const Array* array : arrays) {
    const Shape shape = array->view().shape;
    widen(batch, shape[0]);
    widen(sizes.heads, shape[1]);
  }
  const Shape q_shape = std::as_const(q).view().shape;
  const Shape k_shape = std::as_const(k).view().shape;
  sizes.queries = queries_;
  sizes.query_dim = q_shape[3];
  sizes.keys = keys_;
  sizes.key_dim = k_shape[3];
  sizes.value_dim = std::as_const(v[0]).view().shape[3];
}

void AttendInputs::read_options(const AttendArguments& arguments) {
  if (!arguments.dtype.empty()) parse_dtype(argument("--dtype"), arguments.dtype);
  if (!arguments.scale.empty()) options.scale = parse_number(argument("--scale"), arguments.scale, "a finite number");
  if (!arguments.softcap.empty())
    options.softcap = parse_number(argument("--softcap"), arguments.softcap, "a number above 0, or 0 for none");
  read_positions(arguments);
  Mask& parts = options.mask;
  if (!arguments.key_lengths.empty())
    parts.key_lengths =
        parse_integers(argument("--key-lengths"), arguments.key_lengths, "one integer per batch, or one for all");
  if (!arguments.causal.empty())
    parts.causal = parse_choice<Causal>(argument("--causal"), arguments.causal,
                                        {{"top_left", Causal::top_left}, {"bottom_right", Causal::bottom_right}});
  if (!arguments.window.empty()) {
    const char* takes = "LEFT,RIGHT: two integers, -1 for no limit";
    const auto window = parse_integers(argument("--window"), arguments.window, takes, 2);
    parts.window = Window{window[0], window[1]};
  }
  const char* starts = "integers: 0, the start of each further sequence, and the end of the last";
  if (!arguments.query_starts.empty())
    parts.query_starts = parse_integers(argument("--query-starts"), arguments.query_starts, starts);
  if (!arguments.key_starts.empty())
    parts.key_starts = parse_integers(argument("--key-starts"), arguments.key_starts, starts);
  if (!arguments.stats && !arguments.top_k.empty())
    throw Error("attend: expected --stats beside --top-k, got --top-k alone");
}

// The positions of queries, and the device.
void AttendInputs::read_positions(const AttendArguments& arguments) {
  if (!arguments.first_query.empty())
    options.first_query =
        parse_integers(argument("--first-query"), arguments.first_query, "one integer, or one per batch");
  if (!arguments.rotary.empty()) {
    const auto numbers = try_numbers(arguments.rotary);
    if (!numbers || numbers->size() > 2 || (*numbers)[0] != std::floor((*numbers)[0]) || std::abs((*numbers)[0]) > 1e9)
      refuse(argument("--rotary"), arguments.rotary, "DIMS or DIMS,BASE");
    options.rotary.dims = static_cast<std::int64_t>((*numbers)[0]);
    if (numbers->size() == 2) options.rotary.base = (*numbers)[1];
    options.rotary.interleaved = arguments.rotary_interleaved;
  } else if (arguments.rotary_interleaved) {
    throw Error("attend: expected --rotary beside --rotary-interleaved, got --rotary-interleaved alone");
  }
  device.kind = parse_choice<Device::Kind>(argument("--device"), arguments.device,
                                           {{"cpu", Device::Kind::cpu}, {"cuda", Device::Kind::cuda}});
}

void AttendInputs::read_grid(const AttendArguments& arguments) {
  const bool mechanism_grid = options.score.mechanism->grid();
  if (arguments.grid.empty()) {
    grid = parameters.grid;
    return;
  }
  const auto given = parse_integers(argument("--grid"), arguments.grid, "ROWS,COLS: two integers", 2);
  grid = {given[0], given[1]};
  if (grid[0] < 1 || grid[1] < 1) refuse(argument("--grid"), arguments.grid, "ROWS,COLS of 1 or more");
  if (!mechanism_grid && !arguments.stats) throw Error("attend: expected --stats beside --grid, got --grid alone");
  if (!mechanism_grid) return;
  if (parameters.grid != std::array<std::int64_t, 2>{} && parameters.grid != grid)
    throw Error("attend: --grid: expected " + std::to_string(parameters.grid[0]) + "," +
                std::to_string(parameters.grid[1]) + " as in --param grid, got " + arguments.grid);
  options.score.grid = grid;
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
