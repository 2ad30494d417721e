#include "jax.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>

#include "call.h"
#include "rapt/device.h"
#include "rapt/error.h"
#include "xla.h"
#include "xla_call.h"

namespace rapt::python {
namespace {

namespace nb = nanobind;

int minor_version = 0;  // of the XLA that is loaded, as rapt.jax says it

xla::Error* error_of(const xla::CallFrame* frame, const char* message) {
  xla::ErrorCreate arguments{sizeof(xla::ErrorCreate), nullptr, message, xla::kInvalidArgument};
  return frame->api->create_error(&arguments);
}

std::vector<XlaArray> arrays_of(const xla::Buffers& buffers) {
  std::vector<XlaArray> result(static_cast<std::size_t>(buffers.size));
  for (std::size_t n = 0; n < result.size(); ++n) {
    if (buffers.types[n] != xla::kBuffer) throw Error("attend: expected arrays, got something else of XLA's");
    const auto& buffer = *static_cast<const xla::Buffer*>(buffers.items[n]);
    result[n].type = buffer.dtype;
    result[n].data = buffer.data;
    result[n].dims.assign(buffer.dims, buffer.dims + buffer.rank);
  }
  return result;
}

Attribute attribute_of(std::int32_t type, const void* item) {
  if (type == xla::kText) {
    const auto& text = *static_cast<const xla::Text*>(item);
    return std::string(text.data, text.size);
  }
  if (type == xla::kScalar) {
    const auto& scalar = *static_cast<const xla::Scalar*>(item);
    if (scalar.dtype == xla::kF64) return *static_cast<const double*>(scalar.value);
  }
  if (type == xla::kNumbers) {
    const auto& numbers = *static_cast<const xla::Numbers*>(item);
    const auto* data = static_cast<const std::int64_t*>(numbers.data);
    if (numbers.dtype == xla::kS64) return std::vector<std::int64_t>(data, data + numbers.size);
  }
  throw Error("attend: expected options that rapt.jax made, got others");
}

// The two numbers that tell XLA whether it knows this interface. True: that was all it asked.
bool answer_metadata(const xla::CallFrame* frame) {
  if (frame->extensions == nullptr || frame->extensions->type != xla::kMetadata) return false;
  xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(frame->extensions)->metadata;
  metadata.version.major = 0;
  metadata.version.minor = minor_version;
  metadata.traits = 0;
  return true;
}

xla::Error* run(xla::CallFrame* frame, bool is_backward, Device::Kind kind) {
  if (answer_metadata(frame)) return nullptr;
  try {
    if (frame->struct_size < sizeof(xla::CallFrame) || frame->arguments.struct_size != sizeof(xla::Buffers) ||
        frame->results.struct_size != sizeof(xla::Buffers) || frame->attributes.struct_size != sizeof(xla::Attributes))
      throw Error("attend: expected version 0 of XLA's foreign function interface, got one with other structures");
    if (frame->stage != xla::kExecute) return nullptr;
    XlaCall call;
    call.arguments = arrays_of(frame->arguments);
    call.results = arrays_of(frame->results);
    const xla::Attributes& attributes = frame->attributes;
    for (std::int64_t n = 0; n < attributes.size; ++n)
      call.attributes.emplace(std::string(attributes.names[n]->data, attributes.names[n]->size),
                              attribute_of(attributes.types[n], attributes.items[n]));
    if (kind != Device::Kind::cpu) {
      xla::StreamGet stream{sizeof(xla::StreamGet), nullptr, frame->context, nullptr};
      if (xla::Error* error = frame->api->get_stream(&stream)) return error;
      call.stream = stream.stream;
      xla::DeviceGet device{sizeof(xla::DeviceGet), nullptr, frame->context, 0};
      if (frame->api->struct_size >= sizeof(xla::Api)) {
        if (xla::Error* error = frame->api->get_device(&device)) return error;
      } else if (device_count(kind) > 1) {
        throw Error(
            "attend: expected one GPU with this version of JAX, which does not say which one it means, got several");
      }
      call.device = {kind, device.device};
    }
    call.set_roles();
    const Running counted;
    call.run(is_backward);
    return nullptr;
  } catch (const std::exception& error) {
    return error_of(frame, error.what());
  }
}

xla::Error* forward_on_cpu(xla::CallFrame* frame) { return run(frame, false, Device::Kind::cpu); }
xla::Error* backward_on_cpu(xla::CallFrame* frame) { return run(frame, true, Device::Kind::cpu); }
xla::Error* forward_on_cuda(xla::CallFrame* frame) { return run(frame, false, Device::Kind::cuda); }
xla::Error* backward_on_cuda(xla::CallFrame* frame) { return run(frame, true, Device::Kind::cuda); }

// {(target, platform): handler}, for jax.ffi.register_ffi_target.
nb::list handlers(int minor) {
  minor_version = minor;
  nb::list result;
  const auto add = [&](const char* target, const char* platform, xla::Error* (*handler)(xla::CallFrame*)) {
    result.append(nb::make_tuple(target, platform, nb::capsule(reinterpret_cast<void*>(handler))));
  };
  add("rapt_attend", "cpu", forward_on_cpu);
  add("rapt_attend_backward", "cpu", backward_on_cpu);
  add("rapt_attend", "CUDA", forward_on_cuda);
  add("rapt_attend_backward", "CUDA", backward_on_cuda);
  return result;
}

// Arrays as (NumPy's name of the type, shape).
std::vector<XlaArray> arrays_of(nb::handle list) {
  std::vector<XlaArray> result;
  for (nb::handle item : nb::borrow<nb::sequence>(list)) {
    const auto pair = nb::cast<nb::tuple>(item);
    const auto name = nb::cast<std::string>(pair[0]);
    XlaArray array;
    array.type = name == "float32"    ? xla::kF32
                 : name == "float64"  ? xla::kF64
                 : name == "float16"  ? xla::kF16
                 : name == "bfloat16" ? xla::kBF16
                 : name == "bool"     ? xla::kPred
                 : name == "int32"    ? xla::kS32
                 : name == "int64"    ? xla::kS64
                                      : 0;
    array.dims = nb::cast<std::vector<std::int64_t>>(pair[1]);
    result.push_back(std::move(array));
  }
  return result;
}

// What the engine says of a call before it is compiled: its sentences reach the line that made it.
void check(bool is_backward, nb::handle arguments, nb::handle results, const nb::dict& attributes) {
  XlaCall call;
  call.arguments = arrays_of(arguments);
  call.results = arrays_of(results);
  for (auto [name, value] : attributes) {
    Attribute& attribute = call.attributes[nb::cast<std::string>(name)];
    if (nb::isinstance<nb::str>(value)) attribute = nb::cast<std::string>(value);
    else if (PyFloat_Check(value.ptr())) attribute = nb::cast<double>(value);
    else attribute = nb::cast<std::vector<std::int64_t>>(value.attr("tolist")());
  }
  call.set_roles();
  call.check(is_backward);
}

}  // namespace

void bind_jax(nb::module_& m) {
  m.def("xla_handlers", &handlers);
  m.def("xla_check", &check);
}

}  // namespace rapt::python
