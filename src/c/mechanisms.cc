#include <deque>
#include <string>
#include <vector>

#include "c/listed.h"
#include "c/status.h"
#include "rapt/c.h"
#include "rapt/registry.h"

// The list of mechanisms and their parameters, for C.

namespace {

using rapt::c::contained;
using rapt::c::element;
using rapt::c::guarded;

struct Listed : rapt::c::Listed {
  explicit Listed(const rapt::MechanismInfo& info)
      : rapt::c::Listed(info.name(), info.formula(), info.parameters()), has_grid(info.grid() ? 1 : 0) {
    for (const rapt::SettingSpec& spec : info.settings())
      settings.push_back({keep(std::string(spec.name)), spec.value, spec.low, spec.high, spec.integer ? 1 : 0});
  }

  std::int32_t has_grid;
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

// `get` of a mechanism, or `otherwise` past the last one.
template <class T, class F>
T of(size_t mechanism, T otherwise, F&& get) noexcept {
  T result = otherwise;
  contained([&] {
    const std::deque<Listed>& all = all_listed();
    if (mechanism < all.size()) result = get(all[mechanism]);
  });
  return result;
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
      throw rapt::Error(std::string("rapt_mechanism_find: ") + (name == nullptr ? "name" : "mechanism") +
                        ": expected a pointer, got NULL");
    const rapt::MechanismInfo* found = &rapt::mechanism(name);
    const auto all = rapt::all_mechanisms();
    for (size_t n = 0; n < all.size(); ++n)
      if (all[n] == found) *mechanism = n;
  });
}

}  // extern "C"
