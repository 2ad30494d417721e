// Files that are read beside a run or in its place: metrics, arrays to explore, tables to plot, pictures, settings, and
// stored results. The first byte says which reader. Bad input is refused with a one-line error.

#include <stdlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/explore_arrays.h"
#include "cli/image_input.h"
#include "cli/plot_inputs.h"
#include "explorer/epochs.h"
#include "rapt/error.h"
#include "reproduce/stored.h"
#include "reproduce/training.h"
#include "tasks/head_history.h"
#include "tasks/image_run.h"
#include "tasks/scene_run.h"
#include "tasks/sequence_run.h"
#include "tensor/npy.h"

namespace {

using Path = std::filesystem::path;

// A directory of this process, with arrays and a run on images, removed when it ends.
struct Scratch {
  Path path;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "rapt_fuzz_inputs_XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path = name;
    for (const char* part : {"arrays", "run", "other"}) std::filesystem::create_directories(path / part);
    rapt::Array rows(rapt::ElementType::f32, {1, 2, 4, 3});
    for (const char* array : {"q.npy", "k.npy"}) rapt::write_npy(path / "arrays" / array, rows);
    rapt::tasks::ImageRunConfig config = rapt::tasks::image_defaults("shapes", rapt::models::ImageModelKind::attention);
    config.sizes = {32, 32, 3, 4};
    rapt::tasks::write_config(path / "run", config);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

const Path& scratch() {
  static const Scratch one;
  return one.path;
}

Path put(const char* name, std::string_view bytes) {
  const Path path = scratch() / name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void read_metrics(std::string_view bytes) {
  const std::string file = put("other/metrics.jsonl", bytes).string();
  for (const auto& read : std::vector<void (*)(const std::string&)>{
           [](const std::string& path) { rapt::explorer::read_epochs(path); },
           [](const std::string& path) {
             rapt::cli::read_curves({{path}, "", "", false, false});
           },
           [](const std::string& path) { rapt::reproduce::epochs_before(Path(path).parent_path(), 3); }}) {
    try {
      read(file);
    } catch (const rapt::Error&) {
    }
  }
}

// mechanism.json, and after a zero byte tokens.txt.
void explore(std::string_view bytes) {
  const std::size_t cut = bytes.find('\0');
  put("arrays/mechanism.json", bytes.substr(0, cut));
  std::filesystem::remove(scratch() / "arrays/tokens.txt");
  if (cut != std::string_view::npos) put("arrays/tokens.txt", bytes.substr(cut + 1));
  rapt::cli::AttendArguments options;
  options.normalize.clear();
  options.threads = "1";
  rapt::cli::exhibit_of_arrays(scratch() / "arrays", options);
}

void read_rows(std::string_view bytes) {
  rapt::read_npy_rows(put("rows.npy", bytes), [](const std::vector<std::int64_t>& shape) {
    if (shape.size() < 2) throw rapt::Error("fuzz: expected rows, got none");
    const std::int64_t rows = shape[shape.size() - 2];
    return std::vector<rapt::RowRange>{{0, rows / 2}, {rows / 2, rows}};
  });
}

void read_settings(std::string_view bytes) {
  const Path file = put("settings.json", bytes);
  for (int task = 0; task < 3; ++task) {
    try {
      if (task == 0) rapt::tasks::image_config("shapes", file, {});
      if (task == 1) {
        rapt::tasks::SceneRunConfig config = rapt::tasks::scene_defaults();
        apply_file(config, file);
      }
      if (task == 2) {
        rapt::tasks::SequenceRunConfig config = rapt::tasks::task_defaults("reverse");
        apply_file(config, file);
      }
    } catch (const rapt::Error&) {
    }
  }
}

void take(int reader, std::string_view bytes) {
  switch (reader) {
    case 0: return read_metrics(bytes);
    case 1:
      put("run/metrics.jsonl", bytes);
      return static_cast<void>(rapt::tasks::read_head_history(scratch() / "run"));
    case 2: return explore(bytes);
    case 3: return static_cast<void>(rapt::cli::read_bars(put("bars.json", bytes).string(), "median_ms"));
    case 4: return static_cast<void>(rapt::cli::read_scaling(put("scaling.json", bytes).string(), "median_ms"));
    case 5: return static_cast<void>(rapt::cli::read_image("fuzz", put("image.png", bytes).string(), 6, 5, 3));
    case 6: return static_cast<void>(rapt::cli::read_image("fuzz", put("gray.png", bytes).string(), 6, 5, 1));
    case 7: return static_cast<void>(rapt::cli::read_image("fuzz", put("image.npy", bytes).string(), 6, 5, 1));
    case 8: return read_rows(bytes);
    case 9: return read_settings(bytes);
    default: return static_cast<void>(rapt::reproduce::parse_stored("fuzz.json", bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr int kReaders = 11;
  try {
    take(data[0] % kReaders, {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const rapt::Error&) {
  }
  return 0;
}
