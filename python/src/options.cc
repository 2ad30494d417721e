#include "options.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "host_threads.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "rapt/registry.h"

namespace rapt::python {

std::int64_t integer(const ArrayReader& reader, nb::handle object, const std::string& name) {
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    reader.fail_type(name + ": expected an integer, got " + nb::repr(object).c_str());
  }
  const long long value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    reader.fail(name + ": expected an integer of 64 bits, got " + nb::repr(object).c_str());
  }
  return value;
}

namespace {

const std::string kCausal = "causal: expected None, \"top_left\" or \"bottom_right\", got ";

std::string text(const ArrayReader& reader, nb::handle object, const std::string& name) {
  if (!nb::isinstance<nb::str>(object)) reader.fail_type(name + ": expected a string, got " + nb::repr(object).c_str());
  return nb::cast<std::string>(object);
}

const MechanismInfo& mechanism_of(const AttendOptions& options) {
  return options.score.mechanism ? *options.score.mechanism : mechanism("scaled_dot");
}

bool has(const auto& specs, const std::string& name) {
  return std::any_of(specs.begin(), specs.end(), [&](const auto& s) { return s.name == name; });
}

double number(const ArrayReader& reader, nb::handle object, const std::string& name) {
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    reader.fail_type(name + ": expected a number, got " + nb::repr(object).c_str());
  }
  return value;
}

// True would leave open which corner is meant.
Causal causal_from(const ArrayReader& reader, nb::handle object) {
  if (!nb::isinstance<nb::str>(object)) reader.fail_type(kCausal + std::string(nb::repr(object).c_str()));
  return causal_of(reader.operation(), nb::cast<std::string>(object));
}

std::array<std::int64_t, 2> two(const ArrayReader& reader, nb::handle object, const std::string& name) {
  const std::vector<std::int64_t> list = read_numbers(reader, object, name);
  if (list.size() != 2) reader.fail(name + ": expected two integers, got " + std::to_string(list.size()));
  return {list[0], list[1]};
}

Rotary rotary_of(const ArrayReader& reader, nb::handle object) {
  Rotary rotary;
  if (PyLong_Check(object.ptr())) {
    rotary.dims = integer(reader, object, "rotary");
    return rotary;
  }
  nb::sequence parts;
  if (!nb::try_cast(object, parts) || nb::len(parts) < 1 || nb::len(parts) > 3)
    reader.fail_type(std::string("rotary: expected dims, or (dims, base, interleaved), got ") +
                     nb::repr(object).c_str());
  rotary.dims = integer(reader, parts[0], "rotary: dims");
  if (nb::len(parts) > 1) rotary.base = number(reader, parts[1], "rotary: base");
  if (nb::len(parts) > 2) rotary.interleaved = nb::cast<bool>(nb::bool_(parts[2]));
  return rotary;
}

}  // namespace

Score score_of(const std::string& given) {
  constexpr char kSeparator = '\x1f';
  if (given.empty() || given.front() != kSeparator) return {.mechanism = &mechanism(given)};
  // Compiling one takes tens of microseconds. Never destroyed: calls may come at the end of the process.
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::unordered_map<std::string, Score>;
  constexpr std::size_t kMost = 256;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(given); found != known.end()) return found->second;
  const std::size_t second = given.find(kSeparator, 1), third = given.find(kSeparator, second + 1);
  if (second == std::string::npos || third == std::string::npos) throw Error("formula: expected three texts");
  Score score = formula(given.substr(1, second - 1),
                        {.pair = given.substr(second + 1, third - second - 1), .visible = given.substr(third + 1)});
  if (known.size() == kMost) known.clear();
  known.emplace(given, score);
  return score;
}

void add_parameter(AttendOptions& options, const std::string& name, const ConstView& view) {
  const bool of_normalizer =
      !has(mechanism_of(options).parameters(), name) && has(info_of(options.normalizer).parameters, name);
  (of_normalizer ? options.normalizer_parameters : options.score.parameters).push_back({name, view});
}

Causal causal_of(const char* operation, const std::string& given) {
  if (given == "top_left") return Causal::top_left;
  if (given == "bottom_right") return Causal::bottom_right;
  throw Error(std::string(operation) + ": " + kCausal + "'" + given + "'");
}

Path path_of(const char* operation, const std::string& given) {
  if (given == "automatic") return Path::automatic;
  if (given == "generic") return Path::generic;
  if (given == "reference") return Path::reference;
  throw Error(std::string(operation) + ": path: expected \"automatic\", \"generic\" or \"reference\", got \"" + given +
              "\"");
}

std::vector<std::int64_t> read_numbers(const ArrayReader& reader, nb::handle object, const std::string& name) {
  if (PyLong_Check(object.ptr())) return {integer(reader, object, name)};
  // Arrays of any library give Python's numbers.
  nb::object list = nb::hasattr(object, "tolist") ? nb::object(object.attr("tolist")()) : nb::borrow(object);
  if (PyLong_Check(list.ptr())) return {integer(reader, list, name)};
  nb::sequence numbers;
  if (nb::isinstance<nb::str>(list) || !nb::try_cast(list, numbers))
    reader.fail_type(name + ": expected an integer or a sequence of integers, got " + nb::repr(object).c_str());
  std::vector<std::int64_t> result;
  for (nb::handle item : numbers) result.push_back(integer(reader, item, name));
  return result;
}

Options::Options(const ArrayReader& reader, nb::handle packed) {
  if (packed.is_none()) {
    value.threads = lent_threads();
    return;
  }
  const auto options = nb::cast<nb::tuple>(packed);
  if (options.size() != static_cast<std::size_t>(Option::count)) reader.fail_type("options: expected all of them");
  const auto given = [&](Option option, auto&& use) {
    const nb::handle object = PyTuple_GetItem(options.ptr(), static_cast<Py_ssize_t>(option));
    if (!object.is_none()) use(object);
  };

  given(Option::score, [&](nb::handle o) { value.score = score_of(text(reader, o, "score")); });
  given(Option::normalizer, [&](nb::handle o) { value.normalizer = normalizer(text(reader, o, "normalizer")); });
  given(Option::params, [&](nb::handle o) {
    nb::dict params;
    if (!nb::try_cast(o, params)) {
      params = nb::dict();  // any mapping, as it is now
      if (!nb::hasattr(o, "keys") || PyDict_Update(params.ptr(), o.ptr()) != 0) {
        PyErr_Clear();
        reader.fail_type(std::string("params: expected a mapping of names to arrays, got ") + nb::repr(o).c_str());
      }
    }
    const MechanismInfo& info = mechanism_of(value);
    for (auto [key, object] : params) {
      const std::string name = text(reader, key, "params");
      if (object.is_none()) continue;
      const std::string whole = "params: " + name;
      if (has(info.settings(), name) && !has(info.parameters(), name)) {
        value.score.settings.push_back({name, number(reader, object, whole)});
        continue;
      }
      parameters.push_back(reader.read_parameter(object, whole));
      names.push_back(name);
      add_parameter(value, name, parameters.back().view());
    }
  });
  given(Option::causal, [&](nb::handle o) { value.mask.causal = causal_from(reader, o); });
  given(Option::scale, [&](nb::handle o) { value.scale = number(reader, o, "scale"); });
  given(Option::softcap, [&](nb::handle o) { value.softcap = number(reader, o, "softcap"); });
  given(Option::bias, [&](nb::handle o) {
    new (&bias) Array(reader.read(o, "bias"));
    value.bias = bias.view();
  });
  given(Option::mask, [&](nb::handle o) { value.mask.dense = reader.read_mask(o, "mask", masks); });
  given(Option::window, [&](nb::handle o) {
    const auto [left, right] = two(reader, o, "window");
    value.mask.window = Window{left, right};
  });
  given(Option::key_lengths, [&](nb::handle o) { value.mask.key_lengths = read_numbers(reader, o, "key_lengths"); });
  given(Option::first_query, [&](nb::handle o) { value.first_query = read_numbers(reader, o, "first_query"); });
  given(Option::first_key, [&](nb::handle o) { value.first_key = integer(reader, o, "first_key"); });
  given(Option::query_starts, [&](nb::handle o) { value.mask.query_starts = read_numbers(reader, o, "query_starts"); });
  given(Option::key_starts, [&](nb::handle o) { value.mask.key_starts = read_numbers(reader, o, "key_starts"); });
  given(Option::grid, [&](nb::handle o) { value.score.grid = two(reader, o, "grid"); });
  given(Option::rotary, [&](nb::handle o) { value.rotary = rotary_of(reader, o); });
  given(Option::threads, [&](nb::handle o) {
    const std::int64_t threads = integer(reader, o, "threads");
    if (threads < 1 || threads > 4096) reader.fail("threads: expected 1 to 4096, got " + std::to_string(threads));
    value.threads = static_cast<int>(threads);
  });
  given(Option::path, [&](nb::handle o) { value.path = path_of(reader.operation(), text(reader, o, "path")); });
  given(Option::stream, [&](nb::handle o) { value.stream = reinterpret_cast<void*>(integer(reader, o, "stream")); });
  if (value.threads == 0) value.threads = lent_threads();
}

}  // namespace rapt::python
