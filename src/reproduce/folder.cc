#include "reproduce/folder.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <system_error>

#include "rapt/error.h"
#include "reproduce/page.h"
#include "reproduce/results.h"
#include "tensor/files.h"
#include "tensor/json_text.h"

namespace rapt::reproduce {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettingsFile = "settings.txt";

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error("reproduce: " + path.string() + ": " + what);
}

bool holds_report(const fs::path& directory) {
  try {
    const auto json = parse_json((directory / "results.json").string(), read_file(directory / "results.json"));
    return json.is_object() && json.contains(kReportKey);
  } catch (const std::exception&) {
    return false;
  }
}

// An empty directory and an older report may be replaced, nothing else.
void check_place(const fs::path& place) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(place, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory)
    fail(place, "expected a new or empty directory, or a report, got something that is not a directory");
  if (fs::is_empty(place, error) && !error) return;
  if (!holds_report(place))
    fail(place, "expected a new or empty directory, or a report of rapt reproduce, got one that holds something else");
}

// Both names change in one step where the system can; elsewhere there is a moment without either.
void exchange(const fs::path& a, const fs::path& b) {
#if defined(SYS_renameat2)
  constexpr unsigned kExchange = 2;
  if (::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), kExchange) == 0) return;
#endif
  const fs::path aside = b.string() + ".old";
  fs::rename(b, aside);
  fs::rename(a, b);
  fs::rename(aside, a);
}

// Contents of what an interrupted command left; empty if the directory is something else.
std::string settings_of(const fs::path& unfinished) {
  std::error_code error;
  return fs::is_regular_file(unfinished / kSettingsFile, error) ? read_file(unfinished / kSettingsFile) : "";
}

void write_pictures(const Report& report, const fs::path& directory) {
  std::set<std::string> names;
  for (const PartResult& part : report.parts)
    for (const Block& block : part.section.blocks)
      if (const auto* picture = std::get_if<Picture>(&block)) {
        if (!names.insert(picture->name).second)
          throw Error("reproduce: expected a name of its own for every picture, got two named " + picture->name);
        write_file(directory / (picture->name + ".svg"), pictures::to_svg(picture->drawing));
      }
}

}  // namespace

ReportFolder::ReportFolder(fs::path place, std::string settings)
    : place_(std::move(place)), settings_(std::move(settings)) {
  if (!place_.has_filename()) place_ = place_.parent_path();
  check_place(place_);
  std::error_code error;
  const fs::path parent = fs::absolute(place_).parent_path();
  fs::create_directories(parent, error);
  if (error) fail(parent, "cannot be made: " + error.message());
  std::string name = (parent / ("." + place_.filename().string() + ".XXXXXX")).string();
  if (!::mkdtemp(name.data())) fail(parent, std::string("cannot be written to: ") + std::strerror(errno));
  work_ = name;
  // Renames onto the empty directory: of two commands only one succeeds.
  if (!settings_.empty() && settings_of(unfinished()) == settings_) {
    fs::rename(unfinished(), work_, error);
    fs::remove(work_ / kSettingsFile, error);
  }
  // mkdtemp is for secrets; a report is for everyone.
  fs::permissions(work_, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read |
                             fs::perms::others_exec);
}

ReportFolder::~ReportFolder() {
  std::error_code error;
  if (!work_.empty()) fs::remove_all(work_, error);
}

std::optional<fs::path> ReportFolder::keep() {
  std::error_code error;
  if (settings_.empty() || !fs::is_directory(runs(), error) || fs::is_empty(runs(), error)) return std::nullopt;
  // Replaces what an earlier command left, never another directory.
  if (fs::exists(unfinished()) && settings_of(unfinished()).empty()) return std::nullopt;
  write_file(work_ / kSettingsFile, settings_);
  fs::remove_all(unfinished(), error);
  fs::rename(work_, unfinished());
  work_.clear();
  return unfinished();
}

void ReportFolder::publish(const Report& report) {
  fs::create_directories(work_ / "pictures");
  write_pictures(report, work_ / "pictures");
  // A name that is not UTF-8 must not lose the rest.
  write_file(work_ / "results.json",
             to_json(report).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  write_file(work_ / "index.html", to_page(report));
  check_place(place_);
  if (!fs::exists(place_)) {
    fs::rename(work_, place_);
    work_.clear();
    return;
  }
  exchange(work_, place_);  // the older report now has the temporary name, and is removed with it
}

}  // namespace rapt::reproduce
