#include "cli/run.h"

#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/session.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "rapt/error.h"
#include "subwords/subwords.h"
#include "training/not_finite.h"

#ifndef RAPT_VERSION
#define RAPT_VERSION "unknown"
#endif

namespace rapt::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

constexpr const char* kRunFooter =
    "rapt VERB --help explains a verb. Exit status: 0 success, 1 a check failed or a number is not\n"
    "finite, 2 bad input, 130 ended by Ctrl-C. Files are replaced in one step, never half-written; a\n"
    "device, a pipe or the target of a link is written to, and - is the standard output.\n"
    "\n"
    "Examples:\n"
    "  rapt list\n"
    "  rapt attend --q q.npy --k k.npy --v v.npy --out result\n"
    "  rapt attend --q q.npy --k k.npy --v v.npy --score cosine --param tau=8 --weights --stats \\\n"
    "    --out result\n";

std::string verb_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + verb->get_name();
  return names;
}

// CLI11 only says that something was not expected; name it.
void check_verb(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2) throw Error("expected a verb, one of " + verb_names(app) + " (see rapt --help), got none");
  const std::string first = argv[1];
  if (first == "-h" || first == "--help" || first == "--version") return;
  if (first.starts_with("-")) throw Error("expected a verb, --help or --version first, got '" + first + "'");
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (verb->get_name() == first) return;
  throw Error("expected one of the verbs " + verb_names(app) + ", got '" + first + "'");
}

// The verb, and the kind of `plot`, that the arguments name.
const CLI::App* innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string path_of(const CLI::App* app) {
  return (app->get_parent()->get_parent() == nullptr ? "" : path_of(app->get_parent()) + " ") + app->get_name();
}

// "--q: 1 required Q.npy missing" → "--q". CLI11 puts names first, followed by a space of its own.
std::string option_of(const std::string& message) { return message.substr(0, message.find_first_of(": ")); }

// CLI11's sentences in our form; unknown ones stay as they are.
std::string expectation(const CLI::App* verb, const CLI::ParseError& error) {
  std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> rest = verb->remaining(true);
    const std::string got = rest.empty() ? message : rest.front();
    const auto kinds = verb->get_subcommands([](const CLI::App*) { return true; });
    if (!got.starts_with("-") && !kinds.empty()) return "expected one of " + verb_names(*verb) + ", got '" + got + "'";
    return (got.starts_with("-") ? "expected one of its options, got '" : "expected no further argument, got '") + got +
           "'";
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return "expected " + message.substr(0, message.find(" is required")) + ", got none";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    constexpr std::string_view kCount = "but received ";
    const std::size_t count = message.rfind(kCount);
    return option_of(message) + (count == std::string::npos
                                     ? ": expected a value, got none"
                                     : ": expected one value, got " + message.substr(count + kCount.size()));
  }
  constexpr std::string_view kUnconverted = "Could not convert: ";
  if (message.starts_with(kUnconverted)) {
    const std::string pair = message.substr(kUnconverted.size());
    const std::size_t equals = pair.find(" = ");
    if (equals != std::string::npos)
      return pair.substr(0, equals) + ": expected no value, got '" + pair.substr(equals + 3) + "'";
  }
  return message;
}

std::string parse_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = innermost(&app);
  if (verb == &app) return error.what();
  const std::string path = path_of(verb);
  return path + ": " + expectation(verb, error) + " (see rapt " + path + " --help)";
}

// Errors in formulas point below the text.
bool has_caret(const std::string& message) { return message.starts_with("formula") && message.ends_with("^"); }

int fail(const std::string& message, int status = kBadInput) {
  if (has_caret(message)) {
    std::cerr << "rapt: " << message << std::endl;
    return status;
  }
  std::cerr << "rapt: " << one_line(message) << std::endl;
  return status;
}

// Verbs that several processes share. Any other is process 0's alone.
bool is_shared(const std::string& verb) { return verb == "attend" || verb == "train" || verb == "bench"; }

int parse_and_run(CLI::App& app, int argc, const char* const* argv) {
  try {
    check_verb(app, argc, argv);
    if (mpi::world() && mpi::world()->rank() > 0 && !is_shared(argv[1])) return 0;
    app.parse(argc, argv);
    return 0;
  } catch (const ExitStatus& status) {
    return status.code;
  } catch (const CLI::ParseError& error) {
    // --help and --version arrive here too.
    if (error.get_exit_code() == 0) return app.exit(error, std::cout, std::cerr);
    return fail(parse_message(app, error));
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const training::NotFinite& error) {
    return fail(error.what(), kFailed);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    subwords::use_linked_library();
    CLI::App app("Attention: every mechanism as one fused kernel, forward and backward", "rapt");
    app.set_version_flag("--version", std::string("rapt ") + RAPT_VERSION, "Print the version");
    app.set_help_flag("-h,--help", "Print this help");
    app.require_subcommand(1);
    app.formatter(help_formatter());
    app.footer(kRunFooter);
#define RAPT_ADD_VERB(name) add_##name(app);
    RAPT_VERBS(RAPT_ADD_VERB)
#undef RAPT_ADD_VERB
    app.get_formatter()->label("SUBCOMMAND", "VERB");
    for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) verb->group("Verbs");
    const int status = parse_and_run(app, argc, argv);
    // A full disk behind stdout must not look like success.
    std::cout.flush();
    if (status != kBadInput && !std::cout) return fail("cannot write to standard output");
    return status;
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace rapt::cli
