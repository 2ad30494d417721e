#include "array.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "rapt/error.h"

namespace rapt::python {
namespace {

constexpr const char* kTypes = "expected numbers of float32, float64, float16 or bfloat16, got ";
constexpr const char* kBooleans = "expected booleans, true = attend (numbers to add go into bias), got ";

std::string expected_types(const std::string& name) { return name + ": " + (name == "mask" ? kBooleans : kTypes); }

// A type of Python's buffers as NumPy calls it.
std::string type_of_format(const std::string& format, Py_ssize_t size) {
  const std::string bits = std::to_string(size * 8);
  if (format.size() == 1 && std::strchr("bhilqn", format[0]) != nullptr) return "int" + bits;
  if (format.size() == 1 && std::strchr("BHILQN", format[0]) != nullptr) return "uint" + bits;
  if (format.size() == 2 && format[0] == 'Z') return "complex" + bits;
  return "the format '" + format + "'";
}

// Sizes and strides counted in elements, aligned to the right; without strides the array is contiguous, as DLPack says.
// False: the engine cannot read such strides.
template <class Size, class Stride>
bool set_shape(ConstView& view, int rank, const Size* sizes, const Stride* strides, std::int64_t unit) {
  view.shape = {1, 1, 1, 1};
  view.strides = {0, 0, 0, 1};
  if (strides == nullptr) {
    for (int n = 0; n < rank; ++n) view.shape[static_cast<std::size_t>(4 - rank + n)] = sizes[n];
    view.strides = contiguous_strides(view.shape);
    return true;
  }
  bool fits = true;
  for (int n = 0; n < rank; ++n) {
    const auto at = static_cast<std::size_t>(4 - rank + n);
    view.shape[at] = static_cast<std::int64_t>(sizes[n]);
    // The stride of a dimension with one element is never used, and libraries write anything there.
    if (view.shape[at] <= 1) continue;
    const auto stride = static_cast<std::int64_t>(strides[n]);
    fits = fits && stride >= 0 && stride % unit == 0;
    view.strides[at] = stride / unit;
  }
  return fits && (view.shape[3] <= 1 || view.strides[3] == 1);
}

bool is_native(const char* format) {
  const std::uint16_t one = 1;
  const bool little = *reinterpret_cast<const unsigned char*>(&one) == 1;
  return *format != (little ? '>' : '<') && *format != (little ? '!' : '<');
}

// As DLPack declares it. Later versions add to the end.
struct ExchangeApi {
  std::uint32_t major, minor;
  const void* older;
  int (*managed_tensor_allocator)(void*, void**, void*, void (*)(void*, const char*, const char*));
  int (*managed_tensor_from_py_object_no_sync)(void*, void**);
  int (*managed_tensor_to_py_object_no_sync)(void*, void**);
  int (*dltensor_from_py_object_no_sync)(void* object, nb::dlpack::dltensor* out);
};

// Of a class of arrays; null: it has none. Classes are few, and are asked once.
const ExchangeApi* exchange_api(PyTypeObject* type) {
  struct Known {
    PyTypeObject* type;
    const ExchangeApi* api;
  };
  static std::array<Known, 8> known{};
  static std::size_t count = 0;
  for (std::size_t n = 0; n < count; ++n)
    if (known[n].type == type) return known[n].api;
  const ExchangeApi* api = nullptr;
  const nb::object capsule =
      nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
  if (capsule.is_valid() && PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") != 0)
    api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  PyErr_Clear();
  if (api != nullptr && (api->major != 1 || api->dltensor_from_py_object_no_sync == nullptr)) api = nullptr;
  if (count < known.size()) {
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    known[count++] = {type, api};
  }
  return api;
}

std::string text_of(const nb::object& object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text);
}

// Tensors of PyTorch that are not strided say so, and arrays name the type of their numbers, which is then one that is not known.
std::string kind_of(nb::handle object) {
  std::string type = text_of(object.type().attr("__name__"));
  const auto has = [&](const char* name) {
    nb::object found = nb::steal(PyObject_GetAttrString(object.ptr(), name));
    PyErr_Clear();
    return found;
  };
  if (const nb::object layout = has("layout"); layout.is_valid()) return type + " of layout " + text_of(layout);
  if (const nb::object dtype = has("dtype"); dtype.is_valid()) return type + " of " + text_of(dtype);
  return type;
}

}  // namespace

const char* numpy_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "float32";
    case Dtype::f64: return "float64";
    case Dtype::bf16: return "bfloat16";
    case Dtype::f16: return "float16";
  }
  return "";
}

Array::Array(Array&& other) noexcept
    : view_(other.view_),
      rank_(other.rank_),
      given_(other.given_),
      booleans_(other.booleans_),
      read_only_(other.read_only_),
      exported_(other.exported_),
      buffer_(other.buffer_),
      keep_(std::move(other.keep_)) {
  other.exported_ = false;
}

Array::~Array() {
  if (exported_) PyBuffer_Release(&buffer_);
}

View Array::writable(const std::string& name) const {
  if (read_only_) throw Error(name + ": expected an array that can be written to, got a read-only one");
  return {const_cast<void*>(view_.data), view_.dtype, view_.shape, view_.strides, view_.device};
}

void ArrayReader::fail(const std::string& what) const { throw Error(std::string(operation_) + ": " + what); }

void ArrayReader::fail_type(const std::string& what) const {
  throw nb::type_error((std::string(operation_) + ": " + what).c_str());
}

void ArrayReader::set_type(char kind, int bits, const std::string& name, const std::string& got, Array& array) const {
  array.booleans_ = kind == '?';
  if (kind == '?') return;
  if (kind == 'f' && bits == 32) array.view_.dtype = Dtype::f32;
  else if (kind == 'f' && bits == 64) array.view_.dtype = Dtype::f64;
  else if (kind == 'f' && bits == 16) array.view_.dtype = Dtype::f16;
  else if (kind == 'b' && bits == 16) array.view_.dtype = Dtype::bf16;
  else fail_type(expected_types(name) + got);
}

void ArrayReader::check_rank(int rank, const std::string& name, const Array& array) const {
  if (rank >= array.least_rank_ && rank <= 4) return;
  fail(name + ": expected " + (array.least_rank_ == 2 ? "two" : "one") + " to four dimensions, got " +
       std::to_string(rank));
}

// NumPy's arrays, and those of most others in this processor's memory.
bool ArrayReader::from_buffer(nb::handle object, const std::string& name, Array& array) const {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  Py_buffer& buffer = array.buffer_;
  if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return false;
  }
  array.exported_ = true;
  const char* format = buffer.format == nullptr ? "B" : buffer.format;
  const std::string whole = format;
  if (!is_native(format)) fail_type(name + ": expected numbers in this machine's byte order, got '" + whole + "'");
  if (std::strchr("@=<>!", *format) != nullptr && *format != '\0') ++format;
  const bool one = std::strlen(format) == 1;
  const char kind = one ? *format : ' ';
  if (kind == '?') set_type('?', 8, name, whole, array);
  else if (kind == 'f' || kind == 'd' || kind == 'e')
    set_type('f', static_cast<int>(buffer.itemsize) * 8, name, whole, array);
  else fail_type(expected_types(name) + type_of_format(format, buffer.itemsize));
  check_rank(buffer.ndim, name, array);
  array.view_.data = buffer.buf;
  array.rank_ = buffer.ndim;
  array.read_only_ = buffer.readonly != 0;
  array.given_ = set_shape(array.view_, buffer.ndim, buffer.shape, buffer.strides, buffer.itemsize);
  return true;
}

// DLPack's exchange of C functions (version 1.2), which PyTorch 2.10 has: a tensor in tens of nanoseconds.
bool ArrayReader::from_exchange(nb::handle object, const std::string& name, Array& array) const {
  const ExchangeApi* api = exchange_api(Py_TYPE(object.ptr()));
  if (api == nullptr) return false;
  nb::dlpack::dltensor tensor{};
  if (api->dltensor_from_py_object_no_sync(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  set_dlpack_type(tensor.dtype, name, array);
  check_rank(tensor.ndim, name, array);
  set_dlpack_device(tensor.device.device_type, tensor.device.device_id, name, array);
  array.view_.data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  array.rank_ = tensor.ndim;
  array.given_ = set_shape(array.view_, tensor.ndim, tensor.shape, tensor.strides, 1);
  return true;
}

void ArrayReader::set_dlpack_type(nb::dlpack::dtype type, const std::string& name, Array& array) const {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  const char kind = code == nb::dlpack::dtype_code::Float    ? 'f'
                    : code == nb::dlpack::dtype_code::Bfloat ? 'b'
                    : code == nb::dlpack::dtype_code::Bool   ? '?'
                                                             : 'i';
  const std::string sort = code == nb::dlpack::dtype_code::Int       ? "int"
                           : code == nb::dlpack::dtype_code::UInt    ? "uint"
                           : code == nb::dlpack::dtype_code::Complex ? "complex"
                                                                     : "another type of bits: ";
  set_type(kind, type.bits, name, sort + std::to_string(type.bits), array);
}

void ArrayReader::set_dlpack_device(int device, int index, const std::string& name, Array& array) const {
  if (device == nb::device::cuda::value) array.view_.device = {Device::Kind::cuda, index};
  else if (device != nb::device::cpu::value)
    fail(name + ": expected an array on cpu or cuda, got one on DLPack's device " + std::to_string(device));
}

// PyTorch's tensors are asked directly: DLPack takes microseconds, and refuses tensors with gradients.
bool ArrayReader::from_torch(nb::handle object, const std::string& name, Array& array) const {
  PyObject* const tensor = object.ptr();
  static PyObject* const kDataPtr = PyUnicode_InternFromString("data_ptr");
  static PyObject* const kDtype = PyUnicode_InternFromString("dtype");
  static PyObject* const kShape = PyUnicode_InternFromString("shape");
  static PyObject* const kStride = PyUnicode_InternFromString("stride");
  static PyObject* const kIsCpu = PyUnicode_InternFromString("is_cpu");
  const nb::object dtype = nb::steal<nb::object>(PyObject_GetAttr(tensor, kDtype));
  const nb::object address = nb::steal<nb::object>(PyObject_CallMethodObjArgs(tensor, kDataPtr, nullptr));
  if (!dtype.is_valid() || !address.is_valid()) {
    PyErr_Clear();
    return false;
  }
  const TorchType& type = torch_type(dtype, name);
  set_type(type.kind, type.bits, name, type.name, array);
  const nb::object sizes = nb::steal<nb::object>(PyObject_GetAttr(tensor, kShape));
  const nb::object strides = nb::steal<nb::object>(PyObject_CallMethodObjArgs(tensor, kStride, nullptr));
  const nb::object is_cpu = nb::steal<nb::object>(PyObject_GetAttr(tensor, kIsCpu));
  if (!sizes.is_valid() || !strides.is_valid() || !is_cpu.is_valid()) throw nb::python_error();
  const auto rank = static_cast<int>(PyTuple_Size(sizes.ptr()));
  check_rank(rank, name, array);
  std::array<std::int64_t, 4> shape{}, steps{};
  for (int d = 0; d < rank; ++d) {
    shape[static_cast<std::size_t>(d)] = PyLong_AsLongLong(PyTuple_GetItem(sizes.ptr(), d));
    steps[static_cast<std::size_t>(d)] = PyLong_AsLongLong(PyTuple_GetItem(strides.ptr(), d));
  }
  array.view_.data = PyLong_AsVoidPtr(address.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  array.rank_ = rank;
  if (!is_cpu.is(Py_True)) {
    if (!nb::cast<bool>(object.attr("is_cuda")))
      fail(name + ": expected a tensor on cpu or cuda, got one on " + text_of(object.attr("device")));
    array.view_.device = {Device::Kind::cuda, nb::cast<std::int32_t>(object.attr("get_device")())};
  }
  array.given_ = set_shape(array.view_, rank, shape.data(), steps.data(), 1);
  return true;
}

// A type is one object for the whole process: its name is read once.
const ArrayReader::TorchType& ArrayReader::torch_type(nb::handle dtype, const std::string& name) const {
  static std::array<TorchType, 5> types{{{"torch.float32", 'f', 32},
                                         {"torch.float64", 'f', 64},
                                         {"torch.bfloat16", 'b', 16},
                                         {"torch.float16", 'f', 16},
                                         {"torch.bool", '?', 8}}};
  for (const TorchType& type : types)
    if (type.object == dtype.ptr()) return type;
  const std::string got = text_of(nb::borrow(dtype));
  for (TorchType& type : types) {
    if (got != type.name) continue;
    type.object = dtype.inc_ref().ptr();
    return type;
  }
  fail_type(expected_types(name) + got);
}

// NumPy knows bfloat16 through ml_dtypes and can neither export a buffer of it nor DLPack; its bits it can.
bool ArrayReader::from_bfloat16(nb::handle object, const std::string& name, Array& array) const {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return false;
  if (text_of(object.attr("dtype")) != "bfloat16") return false;
  nb::object bits = object.attr("view")("float16");
  if (!from_buffer(bits, name, array)) return false;
  array.view_.dtype = Dtype::bf16;
  array.keep_ = std::move(bits);
  return true;
}

// CuPy's arrays, and others that say where they lie: DLPack makes them read-only, and outputs are written.
bool ArrayReader::from_cuda_interface(nb::handle object, const std::string& name, Array& array) const {
  const nb::object found = nb::steal(PyObject_GetAttrString(object.ptr(), "__cuda_array_interface__"));
  const nb::object index = nb::steal(PyObject_GetAttrString(object.ptr(), "device"));
  PyErr_Clear();
  if (!found.is_valid() || !index.is_valid() || !nb::hasattr(index, "id")) return false;
  const auto interface = nb::cast<nb::dict>(found);
  const auto type = nb::cast<std::string>(interface["typestr"]);  // "<f4"
  const auto sizes = nb::cast<std::vector<std::int64_t>>(interface["shape"]);
  const auto rank = static_cast<int>(sizes.size());
  const int bytes = type.size() > 2 ? std::atoi(type.c_str() + 2) : 0;
  const char kind = type.size() < 2 ? ' ' : type[1];
  if (kind == 'V') return false;  // CuPy's bfloat16 has no letter; DLPack knows it
  set_type(kind == 'b' ? '?' : kind == 'f' ? 'f' : 'i', bytes * 8, name, type, array);
  check_rank(rank, name, array);
  std::vector<std::int64_t> strides(sizes.size());
  const nb::object given = interface.contains("strides") ? nb::object(interface["strides"]) : nb::none();
  if (given.is_none()) {
    std::int64_t stride = bytes;
    for (std::size_t n = sizes.size(); n-- > 0; stride *= sizes[n]) strides[n] = stride;
  } else {
    strides = nb::cast<std::vector<std::int64_t>>(given);
  }
  const auto place = nb::cast<nb::tuple>(interface["data"]);
  array.view_.data = reinterpret_cast<const void*>(nb::cast<std::uintptr_t>(place[0]));
  array.view_.device = {Device::Kind::cuda, nb::cast<std::int32_t>(index.attr("id"))};
  array.rank_ = rank;
  array.read_only_ = nb::cast<bool>(place[1]);
  array.given_ = set_shape(array.view_, rank, sizes.data(), strides.data(), bytes);
  return true;
}

bool ArrayReader::from_dlpack(nb::handle object, const std::string& name, Array& array) const {
  nb::ndarray<nb::ro> exported;
  if (!nb::try_cast(object, exported)) {
    PyErr_Clear();
    return false;
  }
  set_dlpack_type(exported.dtype(), name, array);
  check_rank(static_cast<int>(exported.ndim()), name, array);
  set_dlpack_device(exported.device_type(), exported.device_id(), name, array);
  array.view_.data = exported.data();
  array.rank_ = static_cast<int>(exported.ndim());
  array.read_only_ = true;
  array.given_ = set_shape(array.view_, array.rank_, exported.shape_ptr(), exported.stride_ptr(), 1);
  array.keep_ = nb::cast(exported);
  return true;
}

Array ArrayReader::read_any(nb::handle object, const std::string& name, bool booleans, bool may_copy,
                            int least_rank) const {
  Array array;
  array.least_rank_ = least_rank;
  if (!from_buffer(object, name, array) && !from_exchange(object, name, array) && !from_torch(object, name, array) &&
      !from_bfloat16(object, name, array) && !from_cuda_interface(object, name, array) &&
      !from_dlpack(object, name, array))
    fail_type(name + ": expected an array (NumPy, PyTorch, JAX, or anything with DLPack), got " + kind_of(object));
  if (array.booleans_ != booleans)
    fail_type(booleans ? expected_types("mask") + "numbers" : name + ": " + kTypes + "booleans");
  if (!array.keep_.is_valid()) array.keep_ = nb::borrow(object);
  if (array.given_) return array;
  if (!may_copy)
    fail(name + ": expected contiguous rows and no negative stride, as the array is not copied here, got others");
  const nb::object copy = nb::module_::import_("rapt._arrays").attr("contiguous")(object, operation_, name);
  return read_any(copy, name, booleans, false, least_rank);
}

Array ArrayReader::read(nb::handle object, const std::string& name) const {
  return read_any(object, name, false, may_copy_, 1);
}

Array ArrayReader::read_in_place(nb::handle object, const std::string& name) const {
  return read_any(object, name, false, false, 0);
}

Array ArrayReader::read_parameter(nb::handle object, const std::string& name) const {
  PyObject* const given = object.ptr();
  if (PyFloat_Check(given) || PyLong_Check(given) || PyList_Check(given) || PyTuple_Check(given))
    return read(nb::module_::import_("rapt._arrays").attr("parameter")(object, operation_, name), name);
  return read_any(object, name, false, may_copy_, 0);
}

BoolView ArrayReader::read_mask(nb::handle object, const std::string& name, std::vector<Array>& keep) const {
  keep.push_back(read_any(object, name, true, may_copy_, 1));
  const ConstView& view = keep.back().view();
  return {static_cast<const std::uint8_t*>(view.data), view.shape, view.strides, view.device};
}

}  // namespace rapt::python
