#include "distributed/call.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "attend/check.h"
#include "attend/counted.h"
#include "backends/cuda/device.h"
#include "distributed/ballot.h"
#include "rapt/error.h"
#include "rapt/tiles.h"

namespace rapt::inline v1::distributed {
namespace {

// Stands for an array of the whole sequence: it has an address, but is never read.
ConstView whole_view(ConstView view, std::int64_t rows) {
  static const double nothing = 0;
  view.shape[2] = rows;
  if (!view.data) view.data = &nothing;
  return view;
}

class Fingerprint {
 public:
  void add(const void* data, std::size_t bytes) {
    for (std::size_t n = 0; n < bytes; ++n)
      value_ = (value_ ^ static_cast<const unsigned char*>(data)[n]) * 0x100000001b3ULL;
  }
  template <class T>
  void add(const T& number) {
    static_assert(std::is_arithmetic_v<T>);
    add(&number, sizeof number);
  }
  void add(const std::vector<std::int64_t>& list) {
    add(list.size());
    for (const std::int64_t n : list) add(n);
  }
  void add(const ConstView& view, bool with_rows) {
    add(static_cast<int>(view.dtype));
    for (std::size_t n = 0; n < 4; ++n)
      if (n != 2 || with_rows) add(view.shape[n]);
  }
  // What all have the same numbers of, in whatever layout and memory.
  void add_numbers(const ConstView& given, void* stream) {
    std::vector<std::byte> copy;
    const ConstView view = in_ordinary_memory(given, stream, copy);
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    const auto* data = static_cast<const unsigned char*>(view.data);
    if (element_count(view.shape) == 0) return;
    std::vector<unsigned char> row(static_cast<std::size_t>(view.shape[3] * size));
    for (std::int64_t b = 0; b < view.shape[0]; ++b)
      for (std::int64_t h = 0; h < view.shape[1]; ++h)
        for (std::int64_t i = 0; i < view.shape[2]; ++i) {
          const std::int64_t at = b * view.strides[0] + h * view.strides[1] + i * view.strides[2];
          if (view.strides[3] == 1) std::memcpy(row.data(), data + at * size, row.size());
          else
            for (std::int64_t d = 0; d < view.shape[3]; ++d)
              std::memcpy(row.data() + d * size, data + (at + d * view.strides[3]) * size,
                          static_cast<std::size_t>(size));
          add_words(row.data(), row.size());
        }
  }
  std::uint64_t value() const { return value_; }

 private:
  // From the first number to the last, whatever lies between.
  static ConstView in_ordinary_memory(ConstView view, void* stream, std::vector<std::byte>& copy) {
    if (view.device.kind == Device::Kind::cpu || element_count(view.shape) == 0) return view;
    std::int64_t count = 1;
    for (std::size_t n = 0; n < 4; ++n) count += (view.shape[n] - 1) * view.strides[n];
    copy.resize(static_cast<std::size_t>(count) * size_of(view.dtype));
    cuda::copy_to_host(view.device.index, copy.data(), view.data, copy.size(), stream);
    view.data = copy.data();
    view.device = {};
    return view;
  }

  // Eight bytes at a time: tables may have millions.
  void add_words(const unsigned char* data, std::size_t bytes) {
    for (; bytes >= sizeof(std::uint64_t); data += sizeof(std::uint64_t), bytes -= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, data, sizeof word);
      value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ULL;
      value_ ^= value_ >> 32U;
    }
    add(data, bytes);
  }

  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

std::uint64_t fingerprint(const Call& call, const Given& given) {
  Fingerprint f;
  const AttendOptions& o = *given.options;
  f.add(call.operation, std::strlen(call.operation));
  f.add(static_cast<int>(given.distribution));
  f.add(static_cast<int>(call.whole.device.kind));
  f.add(given.inputs->q, false);
  f.add(given.inputs->k, false);
  for (const ConstView& v : given.inputs->v) f.add(v, false);
  f.add(call.whole.mechanism->name().data(), call.whole.mechanism->name().size());
  f.add(call.whole.mechanism->formula().data(), call.whole.mechanism->formula().size());
  for (const double setting : call.whole.settings) f.add(setting);
  f.add(call.whole.grid[0]);
  f.add(call.whole.grid[1]);
  for (const auto* list : {&o.score.parameters, &o.normalizer_parameters})
    for (const NamedView& parameter : *list) {
      f.add(parameter.name.data(), parameter.name.size());
      f.add(parameter.value, true);
      if (parameter.value) f.add_numbers(parameter.value, o.stream);
    }
  f.add(call.whole.scale);
  f.add(call.whole.softcap);
  f.add(static_cast<int>(o.normalizer));
  f.add(static_cast<int>(o.mask.causal));
  f.add(o.mask.window ? o.mask.window->left : -2);
  f.add(o.mask.window ? o.mask.window->right : -2);
  f.add(o.mask.key_lengths);
  f.add(o.mask.query_starts);
  f.add(o.mask.key_starts);
  f.add(o.first_query);
  f.add(o.rotary.dims);
  f.add(o.rotary.base);
  f.add(o.rotary.interleaved);
  f.add(static_cast<int>(o.path));
  f.add(static_cast<bool>(o.mask.dense));
  f.add(static_cast<bool>(o.bias));
  if (o.bias) f.add(o.bias, false);
  if (call.shared_bias && o.bias.shape[2] == 1 && call.queries.length() > 1) f.add_numbers(o.bias, o.stream);
  f.add(call.shared_bias);
  if (given.outputs)
    for (const View& out : given.outputs->out) f.add(static_cast<int>(out.dtype));
  if (given.gradients) {
    const Gradients& g = *given.gradients;
    for (const View* gradient : {&g.q, &g.k, &g.bias}) f.add(static_cast<bool>(*gradient));
    for (const View& gradient : g.v) f.add(static_cast<bool>(gradient));
    f.add(static_cast<bool>(given.grad_lse));
    for (const auto* list : {given.out, given.grad_out})
      for (const ConstView& view : *list) f.add(static_cast<int>(view.dtype));
    f.add(g.parameters.size());
    for (const NamedGradient& gradient : g.parameters) f.add(gradient.name.data(), gradient.name.size());
    f.add(given.saved != nullptr);
    f.add(given.saved && given.saved->rows() && given.saved->rows()->has_wide_out);
  }
  return f.value();
}

[[noreturn]] void fail(const char* operation, const std::string& what) {
  throw Error(std::string(operation) + ": " + what);
}

void refuse_what_has_no_parts(const Call& call, const Given& given) {
  const char* op = call.operation;
  const AttendOptions& o = *given.options;
  if (o.first_key) fail(op, "first_key: expected none over several processes, which have all keys between them");
  if (o.path == Path::reference)
    fail(op, "path: expected automatic or generic over several processes, got reference, which computes whole calls");
  if (!given.outputs) return;
  const Outputs& outputs = *given.outputs;
  if (!outputs.weights.empty())
    fail(op, "weights: expected none over several processes, as their rows are of all keys");
  if (asks_statistics(outputs.statistics)) fail(op, "statistics: expected none over several processes");
  if (outputs.row_max || outputs.row_sum)
    fail(op, "row_max: expected none over several processes, which merge their parts; lse is there");
}

void check_rows(const char* op, const char* name, std::int64_t got, const Share& share, std::int64_t all) {
  if (got != share.rows())
    fail(op, std::string(name) + ": expected " + counted(share.rows(), "row") + ", the share of this process of " +
                 std::to_string(all) + ", got " + std::to_string(got));
}

void check_arrays(const Call& call, const Given& given) {
  Problem own = call.whole;
  own.queries = given.inputs->q.shape[2];
  if (given.outputs) return check_outputs(call.operation, own, *given.outputs);
  const auto list = [&](const char* name, const std::vector<ConstView>& views) {
    if (views.size() != own.v.size())
      fail(call.operation, std::string(name) + ": expected " + counted(own.v.size(), "array") +
                               ", one for each value set, got " + std::to_string(views.size()));
    for (std::size_t s = 0; s < views.size(); ++s)
      check_view(call.operation, indexed(name, s), views[s], output_shape(own, s), own.device, Access::read);
  };
  list("out", *given.out);
  list("grad_out", *given.grad_out);
  if (given.grad_lse) {
    if (!own.is_softmax()) fail(call.operation, "grad_lse: expected the normaliser softmax");
    check_view(call.operation, "grad_lse", given.grad_lse, {own.batch, own.heads, own.queries, 1}, own.device,
               Access::read);
  }
  check_gradients(call.operation, own, *given.inputs, *given.options, *given.gradients);
  const bool has_rows = given.saved && given.saved->rows();
  if (has_rows && given.saved->rows()->count != own.row_count())
    fail(call.operation, "saved: expected the " + counted(own.row_count(), "row") + " of the same forward pass, got " +
                             std::to_string(given.saved->rows()->count));
}

// A backend must take the cells in every process, or in none.
void refuse_cells(const Call& call) {
  Problem cell = call.whole;
  cell.queries = std::min(cell.queries, call.queries.piece_rows());
  cell.keys = std::min(cell.keys, call.keys.piece_rows());
  choose_backend(call.operation, cell, {});
}

// The whole call, made of this process's arrays and all processes' rows.
void describe(Call& call, const Given& given, std::int64_t queries, std::int64_t keys) {
  const char* op = call.operation;
  call.inputs = *given.inputs;
  call.queries = Cut(queries);
  call.keys = Cut(keys);
  const std::int64_t own_queries = given.inputs->q.shape[2], own_keys = given.inputs->k.shape[2];
  for (std::size_t n = 0; n < given.inputs->v.size(); ++n)
    if (given.inputs->v[n].shape[2] != own_keys)
      fail(op, indexed("v", n) + ": expected " + counted(own_keys, "key") + " as in k, got " +
                   std::to_string(given.inputs->v[n].shape[2]));
  check_rows(op, "q", own_queries, call.queries.share(call.rank(), call.size()), queries);
  check_rows(op, "k", own_keys, call.keys.share(call.rank(), call.size()), keys);
  Inputs all = *given.inputs;
  all.q = whole_view(all.q, queries);
  all.k = whole_view(all.k, keys);
  for (ConstView& v : all.v) v = whole_view(v, keys);
  AttendOptions options = *given.options;
  const auto check_pairs = [&](const char* name, Shape& shape, bool shared) {
    if (shape[2] != 1 && shape[2] != own_queries)
      fail(op, std::string(name) + ": expected 1 row, or the " + std::to_string(own_queries) +
                   " of this process, got " + std::to_string(shape[2]));
    shape[2] = shared ? 1 : queries;
  };
  if (options.bias) {
    // A single query is one row for all, in every process, whether or not it is theirs.
    call.shared_bias = queries == 1 || (options.bias.shape[2] == 1 && own_queries != 1);
    check_pairs("bias", options.bias.shape, call.shared_bias);
  }
  if (options.mask.dense)
    check_pairs("mask", options.mask.dense.shape, options.mask.dense.shape[2] == 1 && own_queries != 1);
  call.whole = make_problem(op, all, options);
  refuse_what_has_no_parts(call, given);
  if (call.whole.device.kind != Device::Kind::cpu) refuse_cells(call);
  check_arrays(call, given);

  call.is_softmax = call.whole.is_softmax();
  call.is_additive = call.whole.normalizer->threshold == Threshold::none;
  if (call.in_steps()) call.slots.emplace(call.whole);
  else call.slots.emplace(call.whole, given.gradients && given.gradients->bias);
  call.options = *given.options;
  if (call.shared_bias) call.options.bias.shape[2] = 1;
  if (call.is_softmax && call.whole.normalizer_parameters[0].given)
    call.sink = call.whole.normalizer_parameters[0].view;
  call.options.scale = call.whole.mechanism->definition().uses_scale ? std::optional(call.whole.scale) : std::nullopt;
  if (call.whole.mask.query_starts.empty()) {
    call.options.first_query = call.whole.first_query;
    call.options.mask.causal = call.whole.mask.causal;
  }
}

// What processes tell each other about a call.
struct Card {
  std::uint64_t fingerprint = 0;
  std::array<char, 480> message{};
};

void compare(const Card& own, Communicator& communicator, const char* operation) {
  const std::vector<std::byte> all = communicator.all_gather(&own, sizeof own);
  std::vector<Card> cards(static_cast<std::size_t>(communicator.size()));
  std::memcpy(cards.data(), all.data(), all.size());
  for (std::size_t n = 0; n < cards.size(); ++n)
    if (cards[n].message[0]) {
      if (own.message[0]) throw Error(own.message.data());
      throw Error("process " + std::to_string(n) + ": " + cards[n].message.data());
    }
  for (std::size_t n = 1; n < cards.size(); ++n)
    if (cards[n].fingerprint != cards[0].fingerprint)
      throw Error(std::string(operation) +
                  ": expected the same options, parameters and sizes in every process, got others in process " +
                  std::to_string(n) + " than in process 0");
}

void write_message(Card& card, const std::string& text) { text.copy(card.message.data(), card.message.size() - 1); }

}  // namespace

void agree_on_error(const std::string& message, Communicator& communicator) {
  Card card;
  write_message(card, message);
  compare(card, communicator, "");
}

void refuse(const std::string& message, Communicator& communicator) {
  Ballot none;
  none.refuses = 1;
  communicator.all_gather(&none, sizeof none);
  Card card;
  write_message(card, message);
  communicator.all_gather(&card, sizeof card);
}

Call agree(const char* operation, const Given& given, Communicator& communicator) {
  Call call;
  call.operation = operation;
  call.communicator = &communicator;
  Ballot own;
  try {
    own = ballot_of(given);
  } catch (const Error& error) {
    refuse(error.what(), communicator);
    throw;
  }
  const std::vector<std::byte> bytes = communicator.all_gather(&own, sizeof own);
  std::vector<Ballot> ballots(static_cast<std::size_t>(communicator.size()));
  std::memcpy(ballots.data(), bytes.data(), bytes.size());
  std::int64_t queries = 0, keys = 0;
  for (const Ballot& one : ballots) {
    queries += std::max<std::int64_t>(0, one.queries);
    keys += std::max<std::int64_t>(0, one.keys);
  }
  Card card;
  // Without the rows of one process, nothing can be said of the others'.
  if (std::ranges::any_of(ballots, [](const Ballot& one) { return one.refuses != 0; }))
    compare(card, communicator, operation);
  try {
    const Adopted adopted = adopt(operation, given, ballots);
    Given all = given;
    all.options = &adopted.options;
    if (given.gradients) all.gradients = &adopted.gradients;
    all.grad_lse = adopted.grad_lse;
    call.gradients = adopted.gradients;
    call.grad_lse = adopted.grad_lse;
    describe(call, all, queries, keys);
    card.fingerprint = fingerprint(call, all);
  } catch (const Error& error) {
    write_message(card, error.what());
  }
  compare(card, communicator, operation);
  return call;
}

}  // namespace rapt::inline v1::distributed
