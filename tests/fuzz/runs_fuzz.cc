// The files of a run: its configuration, its weights, its state, and the symbols of its vocabularies.

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/error.h"
#include "tasks/image_run.h"
#include "tasks/scene_run.h"
#include "tasks/sequence_run.h"
#include "tasks/vocabulary.h"
#include "training/checkpoint.h"

namespace {

using Path = std::filesystem::path;

// A directory of this process, removed when it ends.
struct Directory {
  Path path;
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "rapt_fuzz_runs_XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path = name;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

const Path& directory() {
  static const Directory one;
  return one.path;
}

Path file(const char* name, std::string_view bytes) {
  const Path path = directory() / name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// A configuration that was read can be written and read again.
template <class Config>
void read_twice(Config (*read)(const Path&), std::string_view bytes) {
  file("config.json", bytes);
  rapt::tasks::write_config(directory(), read(directory()));
  read(directory());
}

void read_weights(std::string_view bytes, bool state) {
  rapt::layers::Parameters parameters;
  parameters.add("a.weight", {3, 5}, rapt::layers::Initial::normal(1));
  parameters.add("b", {2}, rapt::layers::Initial::normal(1));
  std::vector<float> values(static_cast<std::size_t>(parameters.size())), mean = values, square = values,
                                                                          average = values;
  if (!state) return rapt::training::load_weights(file("model.safetensors", bytes), parameters, values.data());
  rapt::training::State into{&values, &mean, &square, &average, {}};
  rapt::training::load_state(file("state.safetensors", bytes), parameters, into);
}

void read_vocabulary(std::string_view text) {
  std::vector<std::string> symbols;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    symbols.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  const rapt::tasks::Vocabulary vocabulary(symbols);
  const std::vector<int> ids = vocabulary.encode(symbols);
  if (vocabulary.decode(ids) != symbols) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 6) {
      case 0: read_twice(&rapt::tasks::read_config, bytes); break;
      case 1: read_twice(&rapt::tasks::read_image_config, bytes); break;
      case 2: read_twice(&rapt::tasks::read_scene_config, bytes); break;
      case 3: read_weights(bytes, false); break;
      case 4: read_weights(bytes, true); break;
      default: read_vocabulary(bytes);
    }
  } catch (const rapt::Error&) {
  }
  return 0;
}
