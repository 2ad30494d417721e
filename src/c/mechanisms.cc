#include <deque>
#include <string>
#include <vector>

#include "c/status.h"
#include "mechanisms/describe.h"
#include "rapt/c.h"
#include "rapt/registry.h"

// What mechanisms there are and what they take, for C.

namespace {

using rapt::c::contained;
using rapt::c::guarded;

// Texts with an end that C can see; a deque leaves them where they are.
struct Listed {
  explicit Listed(const rapt::MechanismInfo& info) {
    name = keep(std::string(info.name()));
    formula = keep(std::string(info.formula()));
    has_grid = info.grid() ? 1 : 0;
    for (const rapt::ParameterSpec& spec : info.parameters())
      parameters.push_back({keep(std::string(spec.name)), keep(rapt::shape_text(spec)), keep(rapt::role_text(spec)),
                            static_cast<std::int32_t>(spec.heads), spec.required ? 1 : 0});
    for (const rapt::SettingSpec& spec : info.settings())
      settings.push_back({keep(std::string(spec.name)), spec.value, spec.low, spec.high, spec.integer ? 1 : 0});
  }

  const char* keep(std::string text) { return texts.emplace_back(std::move(text)).c_str(); }

  std::deque<std::string> texts;
  const char* name = nullptr;
  const char* formula = nullptr;
  std::int32_t has_grid = 0;
  std::vector<rapt_parameter_info> parameters;
  std::vector<rapt_setting_info> settings;
};

const std::deque<Listed>& all_listed() {
  static const std::deque<Listed> list = [] {
    std::deque<Listed> all;
    for (const rapt::MechanismInfo* info : rapt::all_mechanisms()) all.emplace_back(*info);
    return all;
  }();
  return list;
}

// What `get` takes from a mechanism, or `otherwise` past the last one.
template <class T, class F>
T of(size_t mechanism, T otherwise, F&& get) noexcept {
  T result = otherwise;
  contained([&] {
    const std::deque<Listed>& all = all_listed();
    if (mechanism < all.size()) result = get(all[mechanism]);
  });
  return result;
}

template <class T>
const T* element(const std::vector<T>& list, size_t index) {
  return index < list.size() ? &list[index] : nullptr;
}

}  // namespace

extern "C" {

size_t rapt_mechanism_count(void) {
  size_t count = 0;
  contained([&] { count = all_listed().size(); });
  return count;
}

const char* rapt_mechanism_name(size_t mechanism) {
  return of<const char*>(mechanism, nullptr, [](const Listed& m) { return m.name; });
}

const char* rapt_mechanism_formula(size_t mechanism) {
  return of<const char*>(mechanism, nullptr, [](const Listed& m) { return m.formula; });
}

int32_t rapt_mechanism_has_grid(size_t mechanism) {
  return of<int32_t>(mechanism, 0, [](const Listed& m) { return m.has_grid; });
}

size_t rapt_mechanism_parameter_count(size_t mechanism) {
  return of<size_t>(mechanism, 0, [](const Listed& m) { return m.parameters.size(); });
}

const rapt_parameter_info* rapt_mechanism_parameter(size_t mechanism, size_t parameter) {
  return of<const rapt_parameter_info*>(mechanism, nullptr,
                                        [&](const Listed& m) { return element(m.parameters, parameter); });
}

size_t rapt_mechanism_setting_count(size_t mechanism) {
  return of<size_t>(mechanism, 0, [](const Listed& m) { return m.settings.size(); });
}

const rapt_setting_info* rapt_mechanism_setting(size_t mechanism, size_t setting) {
  return of<const rapt_setting_info*>(mechanism, nullptr,
                                      [&](const Listed& m) { return element(m.settings, setting); });
}

int rapt_mechanism_find(const char* name, size_t* mechanism) {
  return guarded([&] {
    if (name == nullptr || mechanism == nullptr)
      throw rapt::Error(std::string("rapt_mechanism_find: ") + (name == nullptr ? "name" : "mechanism") + ": got NULL");
    const rapt::MechanismInfo* found = &rapt::mechanism(name);
    const auto all = rapt::all_mechanisms();
    for (size_t n = 0; n < all.size(); ++n)
      if (all[n] == found) *mechanism = n;
  });
}

}  // extern "C"
