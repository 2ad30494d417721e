#pragma once

#include <cstddef>
#include <utility>

namespace rapt::inline v1 {

// Memory aligned for vectors, not initialised.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes = 0);
  ~Buffer();
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Frees what is kept between calls.
void release_buffers();

}  // namespace rapt::inline v1
