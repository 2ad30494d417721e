#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <mutex>

#include "distributed/on_device.h"
#include "distributed/thread_communicator.h"
#include "rapt/distributed.h"
#include "support/checks.h"
#include "support/storage.h"

// One case over several processes, forward and backward: what each of them is given, and what comes of it.
namespace support::distributed {

using oracle::Array;
using oracle::Sizes;
using rapt::Distribution;

// The rows that a process has: of an array along the third dimension.
inline std::vector<Int> rows_of(Int length, int rank, int size) {
  const rapt::Share share = rapt::share_of(length, rank, size);
  std::vector<Int> rows;
  for (Int i = share.early_begin; i < share.early_end; ++i) rows.push_back(i);
  for (Int i = share.late_begin; i < share.late_end; ++i) rows.push_back(i);
  return rows;
}

inline Array cut(const Array& whole, const std::vector<Int>& rows) {
  Sizes shape = whole.shape;
  shape[2] = static_cast<Int>(rows.size());
  Array part(shape);
  for (Int b = 0; b < shape[0]; ++b)
    for (Int h = 0; h < shape[1]; ++h)
      for (Int i = 0; i < shape[2]; ++i)
        for (Int d = 0; d < shape[3]; ++d) part.at(b, h, i, d) = whole.at(b, h, rows[static_cast<std::size_t>(i)], d);
  return part;
}

inline void put(Array& whole, const Array& part, const std::vector<Int>& rows) {
  for (Int b = 0; b < part.shape[0]; ++b)
    for (Int h = 0; h < part.shape[1]; ++h)
      for (Int i = 0; i < part.shape[2]; ++i)
        for (Int d = 0; d < part.shape[3]; ++d)
          whole.at(b, h, rows[static_cast<std::size_t>(i)], d) = part.at(b, h, i, d);
}

struct Result {
  ForwardResult forward;
  BackwardResult backward;
  std::string explanation;

  // Every number, as bits.
  std::vector<std::uint64_t> bits() const {
    std::vector<std::uint64_t> all;
    const auto add = [&](const Array& array) {
      for (const double x : array.data) all.push_back(std::bit_cast<std::uint64_t>(x));
    };
    for (const Array& out : forward.out) add(out);
    add(forward.lse);
    const oracle::Gradients& g = backward.gradients;
    add(g.q);
    add(g.k);
    for (const Array& v : g.v) add(v);
    add(g.bias);
    for (const auto& [name, value] : g.parameters) add(value);
    return all;
  }
};

// What stands for an array without elements: one with an address, one without, or, where it may be missing, none.
enum class Empty : std::uint8_t { addressed, null, absent };

struct Wants {
  Distribution distribution = Distribution::automatic;
  bool saved = true;
  int threads = 1;
  Empty empty = Empty::addressed;
  unsigned delays = 0;  // the seed of messages' delays; 0: none
  bool tags = true;     // of messages
  rapt::Device device{};
  std::function<void(rapt::AttendOptions&)> change{};  // of the case's options, last
};

class Processes {
 public:
  Processes(const Case& c, int size, const Wants& wants) : case_(c), whole_(c), size_(size), wants_(wants) {}

  Result run() {
    start();
    errors_ = run_processes(
        size_, [&](rapt::Communicator& communicator) { one(communicator); }, wants_.delays, wants_.tags);
    return result_;
  }

  // One of them: its rows of the result, and zeros.
  Result run_over(rapt::Communicator& communicator) {
    start();
    one(communicator);
    return result_;
  }

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  void start() {
    const oracle::Problem& p = case_.problem;
    result_.forward.out.clear();
    for (const Array& v : p.v) result_.forward.out.emplace_back(Sizes{p.batch(), p.heads(), p.queries(), v.shape[3]});
    result_.forward.lse = Array({p.batch(), p.heads(), p.queries(), 1});
    oracle::Gradients& g = result_.backward.gradients;
    g.q = Array(p.q.shape);
    g.k = Array(p.k.shape);
    for (const Array& v : p.v) g.v.emplace_back(v.shape);
    if (!p.bias.empty()) g.bias = Array(p.bias.shape);
  }

  template <class V>
  void strip(V& view, bool optional) const {
    if (rapt::element_count(view.shape) > 0 || wants_.empty == Empty::addressed) return;
    if (optional && wants_.empty == Empty::absent) view = {};
    view.data = nullptr;
  }

  void one(rapt::Communicator& communicator) {
    const oracle::Problem& p = case_.problem;
    const rapt::Dtype dtype = case_.spec.dtype, compute = compute_type(dtype);
    const auto queries = rows_of(p.queries(), communicator.rank(), size_);
    const auto keys = rows_of(p.keys(), communicator.rank(), size_);
    const auto own = static_cast<Int>(queries.size());
    Buffer q(cut(p.q, queries), dtype), k(cut(p.k, keys), dtype);
    rapt::Inputs inputs{q.view(), k.view(), {}};
    std::vector<Buffer> v, out, grad;
    for (const Array& set : p.v) v.emplace_back(cut(set, keys), dtype);
    for (const Array& set : p.v) out.emplace_back(dtype, Sizes{p.batch(), p.heads(), own, set.shape[3]});
    for (const Array& set : case_.grad_out) grad.emplace_back(cut(set, queries), dtype);
    for (const Buffer& set : v) inputs.v.push_back(set.view());
    rapt::AttendOptions options = whole_.options;
    options.threads = wants_.threads;
    if (wants_.change) wants_.change(options);
    Buffer bias;
    const bool row_bias = !p.bias.empty() && p.bias.shape[2] > 1;
    if (row_bias) {
      bias = Buffer(cut(p.bias, queries), dtype);
      options.bias = std::as_const(bias).view();
    }
    std::vector<std::uint8_t> dense;
    if (!p.mask.dense.empty() && p.mask.dense.shape[2] > 1) {
      const Array part = cut(p.mask.dense, queries);
      for (const double x : part.data) dense.push_back(x != 0);
      dense.push_back(0);
      options.mask.dense = {dense.data(), part.shape, rapt::contiguous_strides(part.shape), {}};
    }
    Buffer grad_lse;
    rapt::ConstView grad_lse_view;
    if (!case_.grad_lse.empty()) {
      grad_lse = Buffer(cut(case_.grad_lse, queries), dtype);
      grad_lse_view = std::as_const(grad_lse).view();
    }
    rapt::Saved saved;
    rapt::Outputs outputs;
    for (Buffer& set : out) outputs.out.push_back(set.view());
    Buffer lse(compute, {p.batch(), p.heads(), own, 1});
    outputs.lse = lse.view();
    outputs.saved = &saved;
    for (rapt::ConstView* view : {&inputs.q, &inputs.k}) strip(*view, false);
    for (rapt::ConstView& view : inputs.v) strip(view, false);
    for (rapt::View& view : outputs.out) strip(view, false);
    strip(outputs.lse, true);
    strip(options.bias, true);
    strip(options.mask.dense, true);
    strip(grad_lse_view, true);
    std::string explanation;
    const rapt::DistributedOptions how{wants_.distribution, &explanation};
    OnDevice there(wants_.device);
    there.move(inputs, options);
    for (rapt::View& view : outputs.out) there.move(view);
    there.move(outputs.lse);
    there.move(grad_lse_view);
    rapt::attend(inputs, outputs, options, communicator, how);

    Buffer dq(dtype, {p.q.shape[0], p.q.shape[1], own, p.q.shape[3]});
    Buffer dk(dtype, {p.k.shape[0], p.k.shape[1], static_cast<Int>(keys.size()), p.k.shape[3]});
    std::vector<Buffer> dv;
    for (const Array& set : p.v)
      dv.emplace_back(dtype, Sizes{set.shape[0], set.shape[1], static_cast<Int>(keys.size()), set.shape[3]});
    rapt::Gradients gradients;
    gradients.q = dq.view();
    gradients.k = dk.view();
    for (Buffer& set : dv) gradients.v.push_back(set.view());
    Buffer dbias;
    if (!p.bias.empty()) {
      dbias = Buffer(dtype, row_bias ? Sizes{p.bias.shape[0], p.bias.shape[1], own, p.bias.shape[3]} : p.bias.shape);
      gradients.bias = dbias.view();
    }
    std::map<std::string, Buffer> parameters;
    for (const auto* list : {&options.score.parameters, &options.normalizer_parameters})
      for (const rapt::NamedView& given : *list) parameters[given.name] = Buffer(dtype, given.value.shape);
    for (auto& [name, buffer] : parameters) gradients.parameters.push_back({name, buffer.view()});
    std::vector<rapt::ConstView> out_views, grad_views;
    for (const Buffer& set : out) out_views.push_back(set.view());
    for (const Buffer& set : grad) grad_views.push_back(set.view());
    for (auto* list : {&out_views, &grad_views})
      for (rapt::ConstView& view : *list) strip(view, false);
    for (rapt::View* view : {&gradients.q, &gradients.k, &gradients.bias}) strip(*view, true);
    for (rapt::View& view : gradients.v) strip(view, true);
    if (wants_.device.kind != rapt::Device::Kind::cpu) out_views.assign(outputs.out.begin(), outputs.out.end());
    for (rapt::ConstView& view : grad_views) there.move(view);
    for (rapt::View* view : {&gradients.q, &gradients.k, &gradients.bias}) there.move(*view);
    for (rapt::View& view : gradients.v) there.move(view);
    for (rapt::NamedGradient& gradient : gradients.parameters) there.move(gradient.value);
    rapt::attend_backward(inputs, out_views, grad_views, wants_.saved ? &saved : nullptr, gradients, options,
                          communicator, {wants_.distribution, nullptr}, grad_lse_view);

    there.fetch();
    const std::lock_guard lock(mutex_);
    result_.explanation = explanation;
    std::string& damage = result_.backward.damage;
    const auto take = [&](Array& to, const Buffer& from, const std::vector<Int>& rows) {
      if (own > 0 && damage.empty()) damage = from.damage();
      put(to, from.values(), rows);
    };
    for (std::size_t s = 0; s < out.size(); ++s) take(result_.forward.out[s], out[s], queries);
    take(result_.forward.lse, lse, queries);
    oracle::Gradients& g = result_.backward.gradients;
    take(g.q, dq, queries);
    take(g.k, dk, keys);
    for (std::size_t s = 0; s < dv.size(); ++s) take(g.v[s], dv[s], keys);
    if (row_bias) take(g.bias, dbias, queries);
    else if (!p.bias.empty()) same(g.bias, dbias.values(), first_);
    for (auto& [name, buffer] : parameters) {
      Array value = buffer.values();
      for (const auto* list : {&p.parameters, &p.normalizer_parameters})
        if (const auto found = list->find(name); found != list->end()) value.shape = found->second.shape;
      same(g.parameters[name], value, first_);
    }
    first_ = false;
  }

  // What all get must be the same.
  static void same(Array& to, const Array& got, bool first) {
    if (!first) {
      EXPECT_EQ(to.data, got.data);
    }
    to = got;
  }

  Case case_;
  Call whole_;
  int size_;
  Wants wants_;
  std::mutex mutex_;
  bool first_ = true;
  Result result_;
  std::vector<std::string> errors_;
};

inline Result run(const Case& c, int size, const Wants& wants = {}) {
  Processes processes(c, size, wants);
  Result result = processes.run();
  for (const std::string& error : processes.errors()) EXPECT_EQ(error, "");
  EXPECT_EQ(result.backward.damage, "");
  return result;
}

inline void check(const CaseSpec& spec, std::initializer_list<int> sizes = {1, 2, 3, 4, 8}, Wants wants = {}) {
  SCOPED_TRACE(describe(spec));
  const Case c = make_case(spec);
  const Expected expected(c, true);
  std::vector<std::uint64_t> first;
  for (const int size : sizes) {
    SCOPED_TRACE(testing::Message() << size << " processes");
    wants.distribution = Distribution::ring;
    const Result result = run(c, size, wants);
    if (testing::Test::HasFailure()) return;
    if (first.empty()) {
      EXPECT_TRUE(expected.matches(result.forward));
      EXPECT_TRUE(expected.matches(result.backward));
      first = result.bits();
    } else {
      EXPECT_TRUE(result.bits() == first);
    }
  }
}

inline CaseSpec long_spec() {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  s.batch = 2;
  s.heads = 4;
  s.key_heads = 2;
  s.queries = 151;
  s.keys = 151;
  s.key_dim = 12;
  s.value_dims = {9};
  return s;
}

}  // namespace support::distributed
