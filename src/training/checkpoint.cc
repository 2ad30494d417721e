#include "training/checkpoint.h"

#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/checksum.h"
#include "tensor/json_text.h"
#include "tensor/safetensors.h"
#include "training/not_finite.h"

namespace rapt::inline v1::training {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "rapt run 2";
constexpr const char* kOldFormat = "rapt run 1";  // without checksums

void list_arrays(std::vector<NamedBytes>& list, const std::string& prefix, const layers::Parameters& parameters,
                 const float* values) {
  for (const layers::Parameter& p : parameters.list())
    list.push_back({prefix + p.name, ElementType::f32, p.shape, reinterpret_cast<const std::byte*>(values + p.offset)});
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw Error(path.string() + ": " + what);
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A file's metadata: a checksum of each array, and of the progress.
Metadata metadata_of(const std::vector<NamedBytes>& list, const std::string& progress = "") {
  json sums = json::object();
  for (const NamedBytes& one : list) {
    std::size_t count = 1;
    for (const std::int64_t size : one.shape) count *= static_cast<std::size_t>(size);
    sums[one.name] = checksum_text({one.data, count * size_of(one.type)});
  }
  Metadata metadata{{"format", kFormat}, {"checksums", sums.dump()}};
  if (!progress.empty()) {
    metadata["progress"] = progress;
    metadata["progress_checksum"] = checksum_text(bytes_of(progress));
  }
  return metadata;
}

void require_finite(const std::filesystem::path& path, const Safetensors& file) {
  for (const NamedArray& one : file.arrays) {
    if (one.array.type() != ElementType::f32) continue;
    for (const float x : one.array.as<float>())
      if (!std::isfinite(x))
        throw NotFinite(path.string() + ": array '" + one.name + "': expected finite numbers, got " +
                        name_of_not_finite(static_cast<double>(x)));
  }
}

// Files of other programs have no format and are taken as they are; ours must be as they were written, bit for bit.
Safetensors read_checked(const std::filesystem::path& path) {
  Safetensors file = read_safetensors(path);
  const auto text = [&](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  const std::string format = text("format"), sums = text("checksums"), progress = text("progress");
  const bool foreign = !format.starts_with("rapt run") && sums.empty() && progress.empty();
  if (!foreign && (format != kOldFormat || !sums.empty())) {
    if (format != kFormat) fail(path, "expected the format '" + std::string(kFormat) + "', got '" + format + "'");
    const json expected = parse_json(path.string() + ": checksums", sums);
    if (!expected.is_object() || expected.size() != file.arrays.size())
      fail(path, "expected a checksum of each of its " + counted(file.arrays.size(), "array") + ", got others");
    for (const NamedArray& one : file.arrays) {
      const std::string got = checksum_text({one.array.data(), one.array.bytes()});
      if (const auto found = expected.find(one.name); found == expected.end() || *found != got)
        fail(path, "array '" + one.name + "' is damaged: expected the checksum " +
                       (found == expected.end() ? "none" : found->dump()) + ", got " + got);
    }
    if (text("progress_checksum") != (progress.empty() ? "" : checksum_text(bytes_of(progress))))
      fail(path, "its progress is damaged: expected the checksum '" + text("progress_checksum") + "', got '" +
                     checksum_text(bytes_of(progress)) + "'");
  }
  require_finite(path, file);
  return file;
}

// Reads every parameter under the prefix; returns how many arrays it took.
std::size_t take_arrays(const std::filesystem::path& path, const Safetensors& file, const std::string& prefix,
                        const layers::Parameters& parameters, float* values) {
  for (const layers::Parameter& p : parameters.list()) {
    const std::string name = prefix + p.name;
    const Array* array = file.find(name);
    if (!array) fail(path, "expected this model's array '" + name + "', got none: is it another model's file?");
    if (array->type() != ElementType::f32)
      fail(path, "array '" + name + "': expected f32, got " + name_of(array->type()));
    if (array->shape() != p.shape)
      fail(path, "array '" + name + "': expected shape " + to_string(std::span<const std::int64_t>(p.shape)) +
                     ", got " + to_string(std::span<const std::int64_t>(array->shape())));
    std::memcpy(values + p.offset, array->data(), array->bytes());
  }
  return parameters.list().size();
}

void refuse_others(const std::filesystem::path& path, const Safetensors& file, std::size_t taken) {
  if (file.arrays.size() != taken)
    fail(path, "expected the " + counted(taken, "array") + " of this model, got " + std::to_string(file.arrays.size()));
}

}  // namespace

void save_weights(const std::filesystem::path& path, const layers::Parameters& parameters, const float* values) {
  std::vector<NamedBytes> list;
  list_arrays(list, "", parameters, values);
  write_safetensors(path, list, metadata_of(list));
}

void load_weights(const std::filesystem::path& path, const layers::Parameters& parameters, float* values) {
  const Safetensors file = read_checked(path);
  refuse_others(path, file, take_arrays(path, file, "", parameters, values));
}

void save_state(const std::filesystem::path& path, const layers::Parameters& parameters, const State& state) {
  std::vector<NamedBytes> list;
  list_arrays(list, "", parameters, state.values->data());
  list_arrays(list, "mean/", parameters, state.mean->data());
  if (!state.square->empty()) list_arrays(list, "square/", parameters, state.square->data());
  if (!state.average->empty()) list_arrays(list, "average/", parameters, state.average->data());
  const Progress& p = state.progress;
  const json progress{{"epoch", p.epoch},
                      {"batch", p.batch},
                      {"step", p.step},
                      {"loss", p.loss},
                      {"units", p.units},
                      {"correct", p.correct},
                      {"best_score", p.best_score},
                      {"best_loss", p.best_loss},
                      {"best_epoch", p.best_epoch},
                      {"seconds", p.seconds},
                      {"finished", p.finished}};
  write_safetensors(path, list, metadata_of(list, progress.dump()));
}

void load_state(const std::filesystem::path& path, const layers::Parameters& parameters, State& state) {
  const Safetensors file = read_checked(path);
  const auto format = file.metadata.find("format");
  const auto text = file.metadata.find("progress");
  if (format == file.metadata.end() || text == file.metadata.end())
    fail(path, "expected the state of a run, got a file without its progress");
  try {
    const json progress = parse_json(path.string() + ": progress", text->second);
    Progress& p = state.progress;
    const auto whole = [&](const char* name, std::int64_t& to) {
      const json& number = progress.at(name);
      if (number.is_number_integer()) number.get_to(to);
      if (!number.is_number_integer() || to < 0)
        fail(path, std::string("progress: ") + name + ": expected a whole number from 0, got " + number.dump());
    };
    whole("epoch", p.epoch);
    whole("batch", p.batch);
    whole("step", p.step);
    whole("units", p.units);
    whole("correct", p.correct);
    whole("best_epoch", p.best_epoch);
    progress.at("loss").get_to(p.loss);
    progress.at("best_score").get_to(p.best_score);
    progress.at("best_loss").get_to(p.best_loss);
    progress.at("seconds").get_to(p.seconds);
    progress.at("finished").get_to(p.finished);
  } catch (const json::exception& e) {
    fail(path, std::string("progress: expected every value of it, got: ") + e.what());
  }
  std::size_t taken = take_arrays(path, file, "", parameters, state.values->data());
  taken += take_arrays(path, file, "mean/", parameters, state.mean->data());
  if (!state.square->empty()) taken += take_arrays(path, file, "square/", parameters, state.square->data());
  if (!state.average->empty()) taken += take_arrays(path, file, "average/", parameters, state.average->data());
  refuse_others(path, file, taken);
}

}  // namespace rapt::inline v1::training
