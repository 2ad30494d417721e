#include "backends/cuda/runtime/compile.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "backends/cuda/runtime/kept_kernels.h"
#include "rapt/error.h"

namespace rapt::inline v1::cuda {
namespace {

using Program = void*;

// The functions of NVRTC that are used here; its header is not needed to build the library.
struct Nvrtc {
  int (*version)(int* major, int* minor) = nullptr;
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*add_name)(Program, const char* expression) = nullptr;
  int (*compile)(Program, int count, const char* const* options) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*image_size)(Program, std::size_t*) = nullptr;
  int (*image)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*lowered_name)(Program, const char* expression, const char** name) = nullptr;
  const char* (*error)(int) = nullptr;
  std::string release;  // "12.9"
  std::string refusal;  // why there is none
};

void* open_library() {
  std::vector<std::string> names;
  if (const char* own = std::getenv("RAPT_NVRTC")) return dlopen(own, RTLD_NOW | RTLD_LOCAL);
  // The versions with C++20; one that is already loaded is found by its name.
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) names.emplace_back(name);
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"})
    if (const char* folder = std::getenv(variable)) names.push_back(std::string(folder) + "/lib64/libnvrtc.so");
  names.emplace_back("/usr/local/cuda/lib64/libnvrtc.so");
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

Nvrtc find_nvrtc() {
  Nvrtc nvrtc;
  void* library = open_library();
  if (!library) {
    nvrtc.refusal =
        "formulas are compiled by NVRTC on a device: expected libnvrtc.so of CUDA 12 or later, found none "
        "(RAPT_NVRTC may name it)";
    return nvrtc;
  }
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete = complete && function != nullptr;
  };
  find(nvrtc.version, "nvrtcVersion");
  find(nvrtc.create, "nvrtcCreateProgram");
  find(nvrtc.destroy, "nvrtcDestroyProgram");
  find(nvrtc.add_name, "nvrtcAddNameExpression");
  find(nvrtc.compile, "nvrtcCompileProgram");
  find(nvrtc.log_size, "nvrtcGetProgramLogSize");
  find(nvrtc.log, "nvrtcGetProgramLog");
  find(nvrtc.image_size, "nvrtcGetCUBINSize");
  find(nvrtc.image, "nvrtcGetCUBIN");
  find(nvrtc.ptx_size, "nvrtcGetPTXSize");
  find(nvrtc.ptx, "nvrtcGetPTX");
  find(nvrtc.lowered_name, "nvrtcGetLoweredName");
  find(nvrtc.error, "nvrtcGetErrorString");
  int major = 0, minor = 0;
  if (complete && nvrtc.version(&major, &minor) == 0)
    nvrtc.release = std::to_string(major) + "." + std::to_string(minor);
  if (major < 12)
    nvrtc.refusal = "formulas are compiled by NVRTC on a device: expected that of CUDA 12 or later, got " +
                    (nvrtc.release.empty() ? "a library that is not it" : nvrtc.release);
  return nvrtc;
}

const Nvrtc& nvrtc() {
  static const Nvrtc found = find_nvrtc();
  return found;
}

// The digest of all headers: a kernel made with other headers is compiled again.
const std::string& headers_digest() {
  static const std::string sum = [] {
    std::string all;
    for (const Header& header : kernel_headers()) all += std::string(header.name) + "\n" + header.text;
    return digest(all);
  }();
  return sum;
}

std::string with_mechanism(std::string_view kernel) {
  std::string expression = "rapt::cuda::";
  for (const char c : kernel) {
    if (c == '@') expression += "rapt::mechanisms::Formula";
    else expression += c;
  }
  return expression;
}

// One compilation.
class Compilation {
 public:
  Compilation(const std::string& source, const std::string& expression) : expression_(expression) {
    std::vector<const char*> texts, names;
    for (const Header& header : kernel_headers()) {
      texts.push_back(header.text);
      names.push_back(header.name);
    }
    check(nvrtc().create(&program_, source.c_str(), "formula.cu", static_cast<int>(texts.size()), texts.data(),
                         names.data()));
    const int added = nvrtc().add_name(program_, expression.c_str());
    if (added != 0) nvrtc().destroy(&program_);
    check(added);
  }
  ~Compilation() { nvrtc().destroy(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  CompiledKernel run(std::string_view architecture) {
    const std::string target = "--gpu-architecture=" + std::string(architecture);
    const std::array options{"--std=c++20", target.c_str(), "--device-as-default-execution-space",
                             "--disable-warnings"};
    if (nvrtc().compile(program_, static_cast<int>(options.size()), options.data()) != 0)
      throw Error("cuda: formula: NVRTC " + nvrtc().release + " did not compile " + expression_ + ":\n" + log());
    CompiledKernel kernel;
    const char* name = nullptr;
    check(nvrtc().lowered_name(program_, expression_.c_str(), &name));
    kernel.name = name;
    std::size_t size = 0;
    const bool ptx = architecture.starts_with("compute");
    check((ptx ? nvrtc().ptx_size : nvrtc().image_size)(program_, &size));
    kernel.image.resize(size);
    check((ptx ? nvrtc().ptx : nvrtc().image)(program_, kernel.image.data()));
    return kernel;
  }

 private:
  static void check(int status) {
    if (status != 0) throw Error(std::string("cuda: formula: NVRTC: ") + nvrtc().error(status));
  }

  // The beginning of the source.
  std::string log() const {
    std::size_t size = 0;
    if (nvrtc().log_size(program_, &size) != 0 || size == 0) return "(it says nothing)";
    std::string text(size, 0);
    nvrtc().log(program_, text.data());
    return text.substr(0, 2000);
  }

  Program program_ = nullptr;
  const std::string& expression_;
};

}  // namespace

std::string compiler_refusal() { return nvrtc().refusal; }

CompiledKernel compile_kernel(std::string_view hooks, std::string_view kernel, std::string_view architecture) {
  if (!nvrtc().refusal.empty()) throw Error("cuda: " + nvrtc().refusal);
  const std::string source = "#include \"backends/cuda/runtime/formula_hooks.cuh\"\nnamespace rapt::mechanisms {\n" +
                             std::string(hooks) + "}\n";
  const std::string key = "NVRTC " + nvrtc().release + "\n" + std::string(architecture) + "\n" + headers_digest() +
                          "\n" + std::string(kernel) + "\n" + source;
  const std::string folder = kernel_folder();
  if (auto kept = find_kept(folder, key)) return *std::move(kept);
  const std::string expression = with_mechanism(kernel);
  CompiledKernel made = Compilation(source, expression).run(architecture);
  keep(folder, key, made);
  return made;
}

}  // namespace rapt::inline v1::cuda
