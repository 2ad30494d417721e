#include "cli/plot_inputs.h"

#include <cmath>
#include <cstring>
#include <sstream>

#include "cli/options.h"
#include "pictures/text.h"
#include "tensor/files.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

constexpr std::size_t kMaxLabels = 1 << 20;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    // Files written on other systems end lines with CR LF.
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

// "B,H" for an array of four dimensions, "H" for one of three.
std::int64_t head_index(const std::string& verb, const Array& array, const std::string& head) {
  const auto& shape = array.shape();
  const std::string argument = verb + ": --head";
  if (array.rank() == 2) throw Error(argument + ": expected an array with heads, got " + to_string(shape));
  const bool batches = array.rank() == 4;
  const std::string takes = (batches ? "B,H" : "H") + std::string(" within ") + to_string(shape) + ", counted from 0";
  std::vector<std::int64_t> at = parse_integers(argument, head, takes);
  if (!batches && at.size() == 2 && at[0] == 0) at.erase(at.begin());
  if (at.size() != (batches ? 2 : 1)) refuse(argument, head, takes);
  for (std::size_t n = 0; n < at.size(); ++n)
    if (at[n] < 0 || at[n] >= shape[n]) refuse(argument, head, takes);
  return batches ? at[0] * shape[1] + at[1] : at[0];
}

// The sizes except the last `last`.
pictures::HeadCenters sizes_of(const std::string& file, const Array& array, std::size_t last) {
  std::vector<std::int64_t> sizes = array.shape();
  for (std::size_t n = 0; n < last && !sizes.empty(); ++n) {
    if (sizes.back() != 2) sizes.clear();
    else sizes.pop_back();
  }
  const char* takes = last == 1 ? "[L, H, 2] or [E, L, H, 2]" : "[L, H, 2, 2] or [E, L, H, 2, 2]";
  if (sizes.size() != 2 && sizes.size() != 3)
    throw Error("plot centers: " + file + ": expected " + takes + ", got an array " + to_string(array.shape()));
  pictures::HeadCenters result;
  if (sizes.size() == 3) result.epochs = sizes[0];
  result.layers = sizes[sizes.size() - 2];
  result.heads = sizes.back();
  return result;
}

}  // namespace

std::vector<std::string> read_labels(const std::string& option, const LabelArguments& arguments) {
  if (!arguments.words.empty() && !arguments.file.empty()) throw Error(option + ": expected words or a file, got both");
  std::vector<std::string> labels =
      arguments.file.empty() ? words_of(arguments.words) : lines_of(read_file(arguments.file));
  if (labels.size() > kMaxLabels)
    throw Error(option + ": expected at most " + std::to_string(kMaxLabels) + " labels, got " +
                std::to_string(labels.size()));
  if (labels.empty() && !(arguments.words.empty() && arguments.file.empty()))
    throw Error(option + ": expected at least one label, got none");
  for (std::size_t n = 0; n < labels.size(); ++n)
    if (!pictures::is_utf8(labels[n]))
      throw Error(option + ": label " + std::to_string(n + 1) + ": expected UTF-8, got other bytes");
  return labels;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Array read_plot_array(const std::string& verb, const std::string& file) {
  const std::uint64_t size = regular_file_size(file), available = available_memory();
  if (size > available / 2)
    throw Error(verb + ": " + file + ": expected at most half of the " + format_bytes(static_cast<double>(available)) +
                " of free memory, got " + format_bytes(static_cast<double>(size)));
  Array array = read_npy(file);
  if (array.count() == 0)
    throw Error(verb + ": " + file + ": expected an array with numbers, got an empty one, " + to_string(array.shape()));
  return array;
}

std::vector<double> numbers_of(const Array& array, std::int64_t first, std::int64_t count) {
  Array part(array.type(), {count});
  const std::size_t size = size_of(array.type());
  std::memcpy(part.data(), array.data() + static_cast<std::size_t>(first) * size,
              static_cast<std::size_t>(count) * size);
  const Array doubles = std::move(part).to(ElementType::f64);
  const auto values = doubles.as<double>();
  return {values.begin(), values.end()};
}

std::vector<MapPlace> map_places(const std::string& verb, const std::string& file, const Array& array,
                                 const std::string& head) {
  const auto& shape = array.shape();
  const int rank = array.rank();
  if (rank < 2 || rank > 4)
    throw Error(verb + ": " + file + ": expected [R, C], [H, R, C] or [B, H, R, C], got an array " + to_string(shape));
  const auto size = [&](int from_end) { return shape[static_cast<std::size_t>(rank - from_end)]; };
  const std::int64_t rows = size(2), cols = size(1), maps = array.count() / (rows * cols);
  const auto title = [&](std::int64_t n) -> std::string {
    if (maps == 1 && head.empty()) return "";
    if (rank < 4 || size(4) == 1) return "head " + std::to_string(n);
    return std::to_string(n / size(3)) + ", " + std::to_string(n % size(3));
  };
  if (!head.empty()) {
    const std::int64_t n = head_index(verb, array, head);
    return {{n * rows * cols, rows, cols, title(n)}};
  }
  constexpr std::int64_t kMaxMaps = 4096;
  if (maps > kMaxMaps)
    throw Error(verb + ": " + file + ": expected at most " + std::to_string(kMaxMaps) +
                " maps, or --head B,H for one of them, got " + std::to_string(maps));
  std::vector<MapPlace> places;
  for (std::int64_t n = 0; n < maps; ++n) places.push_back({n * rows * cols, rows, cols, title(n)});
  return places;
}

void require_finite(const std::string& verb, const std::string& file, const std::vector<double>& values,
                    const MapPlace& place) {
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (std::isfinite(values[n])) continue;
    const auto at = static_cast<std::int64_t>(n);
    throw Error(verb + ": " + file + ": " + (place.title.empty() ? "" : place.title + ": ") +
                "expected finite numbers, got " + (std::isnan(values[n]) ? "nan" : "an infinite number") + " in row " +
                std::to_string(at / place.cols) + ", column " + std::to_string(at % place.cols));
  }
}

pictures::HeadCenters read_centers(const std::vector<std::string>& files) {
  constexpr const char* kVerb = "plot centers";
  const std::vector<std::string>& names = files;
  if (names.size() > 2)
    throw Error("plot centers: expected at most two files, of centres and of covariances, got " +
                std::to_string(names.size()));
  const Array array = read_plot_array(kVerb, names[0]);
  pictures::HeadCenters result = sizes_of(names[0], array, 1);
  result.centers = numbers_of(array, 0, array.count());
  if (names.size() == 2) {
    const Array covariances = read_plot_array(kVerb, names[1]);
    const pictures::HeadCenters sizes = sizes_of(names[1], covariances, 2);
    if (sizes.epochs != result.epochs || sizes.layers != result.layers || sizes.heads != result.heads)
      throw Error("plot centers: " + names[1] + ": expected the sizes of the centres, " + to_string(array.shape()) +
                  ", and one of 2 more, got " + to_string(covariances.shape()));
    result.covariances = numbers_of(covariances, 0, covariances.count());
  }
  return result;
}

}  // namespace rapt::cli
