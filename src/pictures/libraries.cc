#include "pictures/libraries.h"

#include <dlfcn.h>

#include <string>

#include "rapt/error.h"

namespace rapt::pictures {
namespace {

[[noreturn]] void refuse(const std::string& expected, const std::string& got) {
  throw Error("pictures: expected " + expected + ", got: " + got);
}

// Stays open until the process ends. The names are those of Linux and macOS.
void* open_library(const char* name, const char* other_name) {
  if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string why = dlerror();
  if (void* const library = dlopen(other_name, RTLD_NOW | RTLD_LOCAL)) return library;
  refuse(std::string("the library ") + name, why);
}

Libraries load() {
  // librsvg brings Cairo and GLib with it.
  void* const opened[] = {open_library("librsvg-2.so.2", "librsvg-2.2.dylib"),
                          open_library("libfontconfig.so.1", "libfontconfig.1.dylib")};
  const auto find = [&](const char* name) {
    for (void* const library : opened)
      if (void* const symbol = dlsym(library, name)) return symbol;
    refuse(std::string("the function ") + name + " of Cairo, librsvg or fontconfig", "none");
  };
  Libraries found{};
#define RAPT_FIND(name) found.name = reinterpret_cast<decltype(found.name)>(find(#name));
  RAPT_PICTURE_FUNCTIONS(RAPT_FIND)
#undef RAPT_FIND
  return found;
}

}  // namespace

const Libraries& libraries() {
  static const Libraries loaded = load();
  return loaded;
}

}  // namespace rapt::pictures
