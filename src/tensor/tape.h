#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace rapt::inline v1 {

// An arena: memory is handed out piece by piece and released all at once. It stops growing after the first rounds.
// Under the address sanitizer only what was handed out may be touched.
class Arena64 {
 public:
  struct Mark {
    std::size_t chunk = 0;
    std::size_t used = 0;
  };

  void* take(std::size_t bytes);
  void reset();
  // Releases what was taken since the mark.
  Mark mark() const { return {current_, used_}; }
  void rewind(const Mark& mark);
  // The same, but keeps these bytes, which move to the released memory.
  void* keep_only(const Mark& mark, const void* data, std::size_t bytes);
  std::size_t capacity() const;

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  struct Chunk {
    std::unique_ptr<std::byte[], Free> data;
    std::size_t size = 0;
  };
  static Chunk make_chunk(std::size_t bytes);
  void forbid_rest() const;

  std::vector<Chunk> chunks_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;  // of the current chunk
};

template <class T>
class PackCache;

// The operations of a computation, in order, with their backward passes. One thread uses a tape; work is split over
// several. A tape that does not record keeps no gradients: for decoding and validation.
template <class T>
class Tape {
 public:
  explicit Tape(bool recording = true) : recording_(recording) {}
  ~Tape() { reset(); }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  bool recording() const { return recording_; }

  // Where weights that are multiplied by repeatedly are packed. For a tape that does not record.
  void use(PackCache<T>* packs) { packs_ = packs; }
  PackCache<T>* packs() const { return packs_; }

  // Uninitialised, with a zero gradient.
  Tensor<T> make(std::initializer_list<std::int64_t> sizes) {
    return make(std::span<const std::int64_t>(sizes.begin(), sizes.size()));
  }
  Tensor<T> make(std::span<const std::int64_t> sizes);
  Tensor<T> make_like(const Tensor<T>& other) {
    return make(std::span<const std::int64_t>(other.shape.data(), static_cast<std::size_t>(other.rank)));
  }
  // Without a gradient.
  template <class U = T>
  U* scratch(std::int64_t count) {
    return static_cast<U*>(arena_.take(static_cast<std::size_t>(count) * sizeof(U)));
  }
  template <class U>
  std::span<const U> keep(std::span<const U> values) {
    U* copy = scratch<U>(static_cast<std::int64_t>(values.size()));
    std::uninitialized_copy(values.begin(), values.end(), copy);
    return {copy, values.size()};
  }

  // `back` adds the gradients of the inputs, given that of the output. backward() calls them in reverse order.
  template <class F>
  void record(F&& back) {
    using Node = std::decay_t<F>;
    if (!recording_) return;
    void* place = arena_.take(sizeof(Node));
    auto* node = new (place) Node(std::forward<F>(back));
    steps_.push_back({node, [](void* object) { (*static_cast<Node*>(object))(); },
                      std::is_trivially_destructible_v<Node>
                          ? nullptr
                          : +[](void* object) { static_cast<Node*>(object)->~Node(); }});
  }

  void backward();
  // Releases everything since the mark but x, which moves there, so that layers reuse the same memory. Does nothing on
  // a tape that records.
  Arena64::Mark mark() const { return arena_.mark(); }
  Tensor<T> keep_only(const Arena64::Mark& mark, const Tensor<T>& x);
  // Releases everything; the memory is reused.
  void reset();
  std::size_t bytes() const { return arena_.capacity(); }

 private:
  struct Step {
    void* object;
    void (*run)(void*);
    void (*destroy)(void*);
  };

  bool recording_;
  PackCache<T>* packs_ = nullptr;
  Arena64 arena_;
  std::vector<Step> steps_;
};

}  // namespace rapt::inline v1
