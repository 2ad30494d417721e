// Every hook, in the other ways that C++ allows: static, inherited, from a class template, with deduced results.
#include "rapt/custom.h"

namespace {

struct Seen {
  template <class At>
  static auto visible(const At& at) {
    return at.j <= at.i;
  }
  static rapt::Visible visible_tile(const rapt::TileRange& tile) {
    return tile.first_key > tile.last_query ? rapt::Visible::none : rapt::Visible::some;
  }
};

template <int kPower>
struct Everything : Seen {
  static constexpr const char* formula = "a polynomial of raw, and two tables";
  static constexpr bool scaled = true, grid = true, unit_rows = false;
  enum { kTable = kPower };
  static constexpr rapt::ParameterSpec parameters[] = {
      {.name = "c", .sizes = {kPower}},
      {.name = "table", .role = rapt::Role::relative_value, .sizes = {rapt::kOdd}, .along = rapt::Along::grid_row},
      {.name = "w", .role = rapt::Role::pair_weight, .sizes = {rapt::kKeyDim}, .required = false},
  };
  static constexpr std::array settings{
      rapt::SettingSpec{.name = "width", .value = 0.5, .low = 0, .high = 1, .integer = false}};

  int index(std::int64_t offset, const rapt::TableShape& table) const {
    return static_cast<int>(offset + (table.rows - 1) / 2);
  }
  bool uses_content(std::span<const double> numbers) const { return numbers[0] > 0; }

  constexpr auto pair(auto q, auto k, auto w) const { return q * k * w; }

  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    N sum = p[kTable];
    for (int n = 0; n < kPower; ++n) sum = sum * raw + p.at(n);
    static_assert(P::size() == kPower + 1);
    return sum * at.scale + at.settings[0];
  }
};

struct OnlyForm {
  static constexpr std::string_view formula = "−a·row²";
  static constexpr bool grid = true;
  static constexpr std::array<rapt::SettingSpec, 0> settings{};
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "a"}};

  template <class N, class P>
  rapt::QuadraticForm<N> form(const P& p) const {
    return {N(0), N(0), N(0), -p[0], N(0), N(0)};
  }
};

}  // namespace

rapt::Score scores[] = {rapt::custom(Everything<3>{}), rapt::custom(OnlyForm{})};
