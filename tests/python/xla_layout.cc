// Compiled, never run: python/src/xla.h is laid out as the headers of the jaxlib that is installed.
#include <xla/ffi/api/c_api.h>

#include "xla.h"

namespace own = rapt::python::xla;

#define SAME(type, field, theirs, their_field)                                 \
  static_assert(offsetof(own::type, field) == offsetof(theirs, their_field) && \
                sizeof(own::type::field) == sizeof(theirs::their_field))

SAME(Extension, type, XLA_FFI_Extension_Base, type);
SAME(Extension, next, XLA_FFI_Extension_Base, next);
SAME(Version, major, XLA_FFI_Api_Version, major_version);
SAME(Version, minor, XLA_FFI_Api_Version, minor_version);
SAME(Buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(Buffer, data, XLA_FFI_Buffer, data);
SAME(Buffer, rank, XLA_FFI_Buffer, rank);
SAME(Buffer, dims, XLA_FFI_Buffer, dims);
SAME(Text, data, XLA_FFI_ByteSpan, ptr);
SAME(Text, size, XLA_FFI_ByteSpan, len);
SAME(Scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(Scalar, value, XLA_FFI_Scalar, value);
SAME(Numbers, dtype, XLA_FFI_Array, dtype);
SAME(Numbers, size, XLA_FFI_Array, size);
SAME(Numbers, data, XLA_FFI_Array, data);
SAME(Buffers, size, XLA_FFI_Args, size);
SAME(Buffers, types, XLA_FFI_Args, types);
SAME(Buffers, items, XLA_FFI_Args, args);
SAME(Buffers, size, XLA_FFI_Rets, size);
SAME(Buffers, types, XLA_FFI_Rets, types);
SAME(Buffers, items, XLA_FFI_Rets, rets);
SAME(Attributes, size, XLA_FFI_Attrs, size);
SAME(Attributes, types, XLA_FFI_Attrs, types);
SAME(Attributes, names, XLA_FFI_Attrs, names);
SAME(Attributes, items, XLA_FFI_Attrs, attrs);
SAME(ErrorCreate, message, XLA_FFI_Error_Create_Args, message);
SAME(ErrorCreate, code, XLA_FFI_Error_Create_Args, errc);
SAME(StreamGet, context, XLA_FFI_Stream_Get_Args, ctx);
SAME(StreamGet, stream, XLA_FFI_Stream_Get_Args, stream);
SAME(Api, version, XLA_FFI_Api, api_version);
SAME(Api, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(Api, get_stream, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME(CallFrame, api, XLA_FFI_CallFrame, api);
SAME(CallFrame, context, XLA_FFI_CallFrame, ctx);
SAME(CallFrame, stage, XLA_FFI_CallFrame, stage);
SAME(CallFrame, arguments, XLA_FFI_CallFrame, args);
SAME(CallFrame, results, XLA_FFI_CallFrame, rets);
SAME(CallFrame, attributes, XLA_FFI_CallFrame, attrs);
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(Metadata, traits, XLA_FFI_Metadata, traits);
SAME(MetadataExtension, base, XLA_FFI_Metadata_Extension, extension_base);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
#if XLA_FFI_API_MAJOR > 0 || XLA_FFI_API_MINOR >= 2
SAME(Api, get_device, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);
SAME(DeviceGet, context, XLA_FFI_DeviceOrdinal_Get_Args, ctx);
SAME(DeviceGet, device, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
#endif

static_assert(XLA_FFI_API_MAJOR == 0);
static_assert(static_cast<int>(own::kMetadata) == XLA_FFI_Extension_Metadata);
static_assert(static_cast<int>(own::kPred) == XLA_FFI_DataType_PRED);
static_assert(static_cast<int>(own::kS32) == XLA_FFI_DataType_S32);
static_assert(static_cast<int>(own::kS64) == XLA_FFI_DataType_S64);
static_assert(static_cast<int>(own::kF16) == XLA_FFI_DataType_F16);
static_assert(static_cast<int>(own::kF32) == XLA_FFI_DataType_F32);
static_assert(static_cast<int>(own::kF64) == XLA_FFI_DataType_F64);
static_assert(static_cast<int>(own::kBF16) == XLA_FFI_DataType_BF16);
static_assert(static_cast<int>(own::kBuffer) == XLA_FFI_ArgType_BUFFER);
static_assert(static_cast<int>(own::kBuffer) == XLA_FFI_RetType_BUFFER);
static_assert(static_cast<int>(own::kNumbers) == XLA_FFI_AttrType_ARRAY);
static_assert(static_cast<int>(own::kScalar) == XLA_FFI_AttrType_SCALAR);
static_assert(static_cast<int>(own::kText) == XLA_FFI_AttrType_STRING);
static_assert(static_cast<int>(own::kInvalidArgument) == XLA_FFI_Error_Code_INVALID_ARGUMENT);
static_assert(static_cast<int>(own::kExecute) == XLA_FFI_ExecutionStage_EXECUTE);
