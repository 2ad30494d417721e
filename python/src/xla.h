#pragma once

#include <cstddef>
#include <cstdint>

// The part of XLA's foreign function interface, version 0, that handlers need, as its C ABI lays it out. Declared here, so that
// neither the build nor a wheel depends on JAX; tests/python/xla_layout.cc compares it with the headers that jaxlib ships.
namespace rapt::python::xla {

struct Error;
struct Context;

struct Extension {
  std::size_t struct_size;
  std::int32_t type;
  Extension* next;
};
constexpr std::int32_t kMetadata = 1;

struct Version {
  std::size_t struct_size;
  Extension* extensions;
  int major, minor;
};

enum DataType : std::int32_t { kPred = 1, kS32 = 4, kS64 = 5, kF16 = 10, kF32 = 11, kF64 = 12, kBF16 = 16 };

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  std::int32_t dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

struct Text {
  const char* data;
  std::size_t size;
};

struct Scalar {
  std::int32_t dtype;
  void* value;
};

struct Numbers {
  std::int32_t dtype;
  std::size_t size;
  void* data;
};

// Arguments and results alike; the only type there is, 1, is a buffer.
struct Buffers {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  std::int32_t* types;
  void** items;
};
constexpr std::int32_t kBuffer = 1;

enum AttributeType : std::int32_t { kNumbers = 1, kScalar = 3, kText = 4 };

struct Attributes {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  std::int32_t* types;
  Text** names;
  void** items;
};

struct ErrorCreate {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  std::int32_t code;
};
constexpr std::int32_t kInvalidArgument = 3;

struct StreamGet {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  void* stream;  // out
};

struct DeviceGet {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  std::int32_t device;  // out
};

struct Api {
  std::size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorCreate*);
  void* get_message;
  void* destroy_error;
  void* register_handler;
  Error* (*get_stream)(StreamGet*);
  void* not_used[12];
  Error* (*get_device)(DeviceGet*);  // since version 0.2
};

struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  Context* context;
  std::int32_t stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};
constexpr std::int32_t kExecute = 3;

struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

}  // namespace rapt::python::xla
