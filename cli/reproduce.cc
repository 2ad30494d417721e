#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "attend/counted.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "rapt/threads.h"
#include "reproduce/folder.h"
#include "reproduce/format.h"
#include "reproduce/results.h"

namespace rapt::cli {
namespace {

constexpr const char* kReproduceFooter =
    "Redoes the results of the five course documents and writes a report: DIR/index.html to be opened in\n"
    "a browser, results.json, the pictures as SVG and the trained models. An older report in DIR is\n"
    "replaced when the new one is complete; a directory that holds anything else is refused. Without PART\n"
    "all parts run; a part that fails does not stop the others. Ctrl-C saves the models trained so far in\n"
    "DIR.unfinished; run the same command to continue.\n"
    "Exit status 1: a required claim does not hold, or a part failed.\n"
    "\n"
    "Examples:\n"
    "  rapt reproduce --quick                       # under 3 minutes on two cores\n"
    "  rapt reproduce --out report                  # all of it, under 25 minutes\n"
    "  rapt reproduce examples convolution --out report\n"
    "  rapt reproduce --list";

struct ReproduceArguments {
  std::vector<std::string> parts;
  std::string out = "reproduce";
  std::string seed, threads;
  bool quick = false;
  bool list = false;
  bool json = false;
};

std::vector<reproduce::Part> chosen_parts(const std::vector<std::string>& names) {
  const auto all = reproduce::all_parts();
  if (names.empty()) return {all.begin(), all.end()};
  std::string known;
  for (const reproduce::Part& part : all) known += (known.empty() ? "" : ", ") + std::string(part.name);
  const auto chosen = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const std::string& name : names)
    if (std::none_of(all.begin(), all.end(), [&](const reproduce::Part& part) { return part.name == name; }))
      throw Error("reproduce: expected a part (" + known + "), got '" + name + "'");
  std::vector<reproduce::Part> parts;
  for (const reproduce::Part& part : all)
    if (chosen(part.name)) parts.push_back(part);
  return parts;
}

// Bars if stderr is a terminal, and a line for each part in any case.
class Display {
 public:
  void start(std::size_t number, std::size_t count, const reproduce::Part& part) {
    label_ = "part " + std::to_string(number) + " of " + std::to_string(count) + ": " + std::string(part.name);
    bar_.reset();
  }
  void update(std::int64_t done, std::int64_t total, const std::string& note) {
    if (!bar_ || total != total_) bar_.emplace(label_, total);
    total_ = total;
    bar_->update(done, one_line(note));
  }
  void end(const reproduce::PartResult& result) {
    bar_.reset();
    std::size_t held = 0;
    for (const reproduce::Claim& claim : result.section.claims) held += claim.holds ? 1 : 0;
    std::cerr << label_ << ", " << reproduce::duration(result.seconds) << ": ";
    if (!result.error.empty()) std::cerr << "failed: " << one_line(result.error);
    else
      std::cerr << held << " of " << counted(result.section.claims.size(), "claim")
                << (result.section.claims.size() == 1 ? " holds" : " hold");
    std::cerr << std::endl;
  }

 private:
  std::string label_;
  std::int64_t total_ = 0;
  std::optional<Progress> bar_;
};

void print_parts() {
  std::vector<std::vector<std::string>> rows;
  for (const reproduce::Part& part : reproduce::all_parts())
    rows.push_back({std::string(part.name), std::string(part.about)});
  std::cout << format_table(rows);
}

// In a terminal each claim wraps within its columns; elsewhere it stays on one line, for other programs.
std::vector<std::vector<std::string>> wrapped_rows(const std::vector<std::vector<std::string>>& rows,
                                                   std::size_t columns) {
  constexpr std::array<std::size_t, 5> kWide{12, 36, 24, 30, 18}, kNarrow{10, 19, 13, 16, 13};  // 128 and 79 with gaps
  const std::array<std::size_t, 5>& widths = columns < 128 ? kNarrow : kWide;
  std::vector<std::vector<std::string>> result;
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 0;
    for (std::size_t n = 0; n < row.size(); ++n) {
      cells.push_back(wrapped(row[n], widths[n]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      std::vector<std::string>& out = result.emplace_back();
      for (const auto& cell : cells) out.push_back(line < cell.size() ? cell[line] : "");
    }
  }
  return result;
}

void print_report(const ReproduceArguments& arguments, const reproduce::Report& report) {
  const std::string page = (std::filesystem::path(arguments.out) / "index.html").string();
  if (arguments.json) {
    std::cout << to_json(report).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    std::cerr << "wrote " << one_line(page) << "\n";
    return;
  }
  std::vector<std::vector<std::string>> rows = claim_rows(report);
  for (auto& row : rows)
    for (std::string& cell : row) cell = one_line(cell);
  if (::isatty(STDOUT_FILENO) != 0) rows = wrapped_rows(rows, terminal_columns(STDOUT_FILENO));
  std::cout << format_table(rows) << "\n";
  for (const reproduce::Claim* claim : report.claims())
    if (!claim->holds)
      std::cout << one_line("does not hold: " + claim->claim + ": " + claim->ours + ". " + claim->why_not()) << "\n";
  std::cout << report.summary() << "\nThe report is " << one_line(page) << "\n";
}

// Checked before the folder replaces what an interrupted command left, which a wrong option must not lose.
reproduce::Context context_of(const ReproduceArguments& arguments) {
  reproduce::Context context;
  context.quick = arguments.quick;
  context.threads = default_threads();
  if (!arguments.threads.empty()) context.threads = parse_threads("reproduce: --threads", arguments.threads);
  if (!arguments.seed.empty()) {
    const char* takes = "a whole number from 0";
    const std::int64_t seed = parse_integers("reproduce: --seed", arguments.seed, takes, 1).front();
    if (seed < 0) refuse("reproduce: --seed", arguments.seed, takes);
    context.seed = static_cast<std::uint64_t>(seed);
  }
  context.stop = Interrupt::asked;
  return context;
}

// Settings that models depend on; the parts train their own.
std::string settings_of(const reproduce::Context& context) {
  return std::string(context.quick ? "quick" : "full") + ", seed " + std::to_string(context.seed) + "\n";
}

reproduce::Report make_report(reproduce::Context context, reproduce::ReportFolder& folder,
                              const std::vector<reproduce::Part>& parts) {
  Display display;
  context.runs = folder.runs();
  context.on_progress = [&](std::int64_t done, std::int64_t total, const std::string& note) {
    display.update(done, total, note);
  };
  reproduce::Listener listener;
  listener.on_start = [&](std::size_t n, std::size_t count, const reproduce::Part& part) {
    display.start(n, count, part);
  };
  listener.on_end = [&](const reproduce::PartResult& result) { display.end(result); };
  reproduce::Report report = run_parts(parts, context, listener);
  folder.publish(report);
  return report;
}

void run_reproduce(const ReproduceArguments& arguments) {
  if (arguments.list) {
    print_parts();
    return;
  }
  check_output_directory("reproduce: --out", arguments.out);
  const std::vector<reproduce::Part> parts = chosen_parts(arguments.parts);
  const Interrupt interrupt;
  const reproduce::Context context = context_of(arguments);
  std::optional<reproduce::Report> report;
  std::optional<std::filesystem::path> kept;
  {
    reproduce::ReportFolder folder(arguments.out, settings_of(context));
    try {
      report = make_report(context, folder, parts);
    } catch (const reproduce::Interrupted&) {
      kept = folder.keep();
    }
  }
  if (!report) {
    std::cerr << "rapt: reproduce: stopped; "
              << (kept ? "the models trained so far are saved in " + one_line(kept->string()) +
                             "; run the same command to continue"
                       : "nothing was trained yet, and nothing written")
              << std::endl;
    // Re-raises the signal, so that a shell's loop ends too.
    std::raise(Interrupt::signal());
  }
  print_report(arguments, *report);
  if (!report->holds()) throw ExitStatus{1};
}

}  // namespace

void add_reproduce(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("reproduce", "Redo the documents' results and write a report");
  auto arguments = std::make_shared<ReproduceArguments>();
  const auto option = [&](const char* name, std::string& to, const char* type, const std::string& help) {
    verb->add_option(name, to, help)->type_name(type)->check(value_given());
  };
  verb->add_option("PART", arguments->parts, "Parts to run, see --list [all]")->type_name("");
  option("--out", arguments->out, "DIR", "The directory of the report [" + arguments->out + "]");
  verb->add_flag("--quick", arguments->quick, "Smaller sizes and fewer epochs");
  option("--seed", arguments->seed, "N", "Random seed [1]");
  option("--threads", arguments->threads, "N", "Threads; the result does not depend on them [all processors]");
  verb->add_flag("--list", arguments->list, "List the parts and end");
  verb->add_flag("--json", arguments->json, "Print the results as JSON");
  verb->footer(kReproduceFooter);
  verb->callback([arguments] { run_reproduce(*arguments); });
}

}  // namespace rapt::cli
