#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

#include "attend/counted.h"
#include "cli/explore_arrays.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "explorer/image_subject.h"
#include "explorer/page.h"
#include "explorer/scene_subject.h"
#include "explorer/sequence_subject.h"
#include "explorer/server.h"
#include "rapt/error.h"
#include "rapt/threads.h"
#include "tasks/experiment.h"
#include "tensor/files.h"
#include "training/not_finite.h"

namespace rapt::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExploreFooter =
    "RUN is what `rapt train --out` made: the page shows every attention layer of the model for one text,\n"
    "and how the answer was decoded; or, for a run on images or scenes, where every head looks from a\n"
    "pixel. Layers and heads are numbered from 0.\n"
    "DIR holds arrays: weights.npy [layers, heads, queries, keys], or q.npy and k.npy [layers, heads, S,\n"
    "D], which are scored as mechanism.json or the options say; beside them, if wanted, tokens.txt (or\n"
    "queries.txt and keys.txt), one token a line, and for a grid image.npy.\n"
    "Without --serve one self-contained page is written, which needs no network. With --serve the page is\n"
    "served on this machine only; rows are computed when they are looked at, so that long inputs work,\n"
    "and texts can be typed.\n"
    "Ctrl-C ends the server, even with clients connected, with exit status 0.\n"
    "\n"
    "Examples:\n"
    "  rapt explore runs/case --text '<U> hello' --out hello.html\n"
    "  rapt explore runs/case --serve --port 8080\n"
    "  rapt explore runs/digits --image 7 --out seven.html\n"
    "  rapt explore arrays --score alibi --param m=0.5,0.25 --causal top_left\n"
    "  rapt explore arrays --grid 14,14 --out image.html\n";

struct ExploreArguments {
  std::string directory, text, target, image, out, port;
  bool serve = false;
  AttendArguments attend;
};

// A subject that explores one of its test images on request.
template <class Subject>
explorer::Served shown_by_number(const fs::path& directory, const std::string& image) {
  const auto subject = std::make_shared<Subject>(directory);
  return {subject->show(image),
          [subject](const std::string& number, const std::string&) { return subject->show(number); }};
}

explorer::Served subject_of(const ExploreArguments& a) {
  const fs::path directory = a.directory;
  if (!fs::is_directory(directory))
    throw Error("explore: expected the directory of a run or of arrays, got '" + a.directory + "'");
  if (!fs::exists(directory / "config.json")) {
    if (!holds_arrays(directory))
      throw Error("explore: " + a.directory +
                  ": expected a run (config.json) or arrays (weights.npy, or q.npy and k.npy), got neither");
    if (!a.text.empty() || !a.target.empty() || !a.image.empty())
      throw Error("explore: " + a.directory +
                  ": expected a run beside --text, --target or --image, got a directory of arrays");
    return {exhibit_of_arrays(directory, a.attend), nullptr};
  }
  const bool scenes = tasks::task_of_run(directory) == "scenes";
  if (scenes || explorer::is_image_run(directory)) {
    if (!a.text.empty() || !a.target.empty())
      throw Error("explore: " + a.directory + ": expected --image N for a run on images, got --text or --target");
    const std::string image = a.image.empty() ? "0" : a.image;
    return scenes ? shown_by_number<explorer::SceneSubject>(directory, image)
                  : shown_by_number<explorer::ImageSubject>(directory, image);
  }
  if (!a.image.empty())
    throw Error("explore: " + a.directory + ": expected --text TEXT for a run on sequences, got --image");
  const auto subject = std::make_shared<explorer::SequenceSubject>(directory);
  if (a.text.empty() && !a.target.empty()) throw Error("explore: --target: expected --text beside it, got none");
  return {subject->show(a.text.empty() ? subject->example() : a.text, a.target),
          [subject](const std::string& text, const std::string& target) { return subject->show(text, target); }};
}

std::atomic<bool> ended{false};

// Serves until Ctrl-C or SIGTERM; a second one ends the process as usual.
void serve(explorer::Served served, int port) {
  explorer::Server server(std::move(served), port);
  ended = false;
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int number) {
      ended = true;
      std::signal(number, SIG_DFL);
    });
  // Stops what is being computed for a client, too.
  set_task_hook([] {
    if (ended) throw Error("explore: the server ends");
  });
  std::cout << server.address() << "  (Ctrl-C ends it)" << std::endl;
  // Not async-signal-safe: a handler must not stop the server itself.
  std::thread watching([&] {
    while (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.stop();
  });
  server.run();
  ended = true;
  watching.join();
  set_task_hook(nullptr);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

int port_of(const std::string& text) {
  if (text.empty()) return 0;
  const char* takes = "0 to 65535; 0 is any that is free";
  const std::int64_t port = parse_integers("explore: --port", text, takes, 1)[0];
  if (port < 0 || port > 65535) refuse("explore: --port", text, takes);
  return static_cast<int>(port);
}

// Messages of the library name arguments; these become options.
std::string in_explore_options(const std::string& message) {
  for (const std::string name : {"image", "port", "text"})
    if (message.starts_with("explore: " + name + ": ")) return "explore: --" + message.substr(9);
  return message;
}

void explore(const ExploreArguments& a) {
  if (a.serve && !a.out.empty()) throw Error("explore: expected --serve or --out, got both");
  if (!a.serve && !a.port.empty()) throw Error("explore: --port: expected --serve beside it, got none");
  const int port = port_of(a.port);
  const fs::path out = a.out.empty() ? "explorer.html" : a.out;
  if (!a.serve) check_output_file("explore: --out", out);
  explorer::Served served = subject_of(a);
  for (const std::string& warning : served.first.warnings)
    std::cerr << "rapt: explore: " << one_line(warning) << std::endl;
  if (a.serve) {
    serve(std::move(served), port);
    return;
  }
  std::int64_t heads = 0;
  for (const explorer::Layer& layer : served.first.layers) heads += layer.weights->heads();
  Progress progress("heads", heads);
  const std::string page =
      explorer::static_page(served.first, [&](std::int64_t done, std::int64_t) { progress.update(done); });
  progress.clear();
  write_file(out, page);
  const auto layers = static_cast<std::int64_t>(served.first.layers.size());
  std::cerr << "wrote " << one_line(out.string()) << ": " << counted(layers, "layer") << ", " << counted(heads, "head")
            << ", " << format_bytes(static_cast<double>(page.size())) << "\n";
}

}  // namespace

void add_explore(CLI::App& app) {
  auto arguments = std::make_shared<ExploreArguments>();
  ExploreArguments& a = *arguments;
  a.attend.score.clear();
  a.attend.normalize.clear();
  CLI::App* verb = app.add_subcommand("explore", "Look at attention in the browser: a page, or a local server");
  verb->footer(kExploreFooter);
  const auto option = [verb](const char* name, std::string& target, const char* help, const std::string& takes) {
    return verb->add_option(name, target, help)->type_name(takes)->check(value_given());
  };
  verb->add_option("RUN|DIR", a.directory, "The directory of a run, or of arrays")->type_name("")->required();
  option("--text", a.text, "What the model reads [an example of its own data]", "TEXT");
  option("--target", a.target, "The answer to show [the model's own]", "TEXT");
  option("--image", a.image, "For a run on images or scenes: the number of a test image [0]", "N");
  option("--out", a.out, "The page to write [explorer.html]", "FILE.html");
  verb->add_flag("--serve", a.serve, "Serve the page on this machine, and compute rows on request");
  option("--port", a.port, "With --serve: the port [any that is free]", "N");
  const char* arrays = "For arrays";
  option("--score", a.attend.score, "Mechanism, see rapt list [scaled_dot]", "NAME")->group(arrays);
  verb->add_option("--param", a.attend.parameters, "A parameter of the mechanism or of the normaliser")
      ->type_name("NAME=FILE.npy|NUMBER[,NUMBER...]")
      ->check(value_given())
      ->group(arrays);
  option("--scale", a.attend.scale, "Replaces 1/√Dk, or 1 where the score has none", "X")->group(arrays);
  option("--softcap", a.attend.softcap, "c > 0: the score becomes c·tanh(score/c)", "X")->group(arrays);
  option("--normalize", a.attend.normalize, "How scores become weights [softmax]", normalizer_names())->group(arrays);
  option("--first-query", a.attend.first_query, "Position of query 0, for all layers or for each [0]", "N[,N...]")
      ->group(arrays);
  option("--causal", a.attend.causal, "Hide later keys", "top_left|bottom_right")->group(arrays);
  option("--window", a.attend.window, "A query at position p sees keys p−L … p+R; -1: no limit", "L,R")->group(arrays);
  option("--key-lengths", a.attend.key_lengths, "Keys in use, for each layer or for all", "N,...")->group(arrays);
  option("--mask", a.attend.mask, "bool [.., Sq or 1, Sk]; true = attend", "M.npy")->group(arrays);
  option("--bias", a.attend.bias, "Added to the scores [.., Sq or 1, Sk]", "B.npy")->group(arrays);
  option("--grid", a.attend.grid, "Queries and keys are places of an image", "ROWS,COLS")->group(arrays);
  verb->callback([arguments] {
    try {
      explore(*arguments);
    } catch (const training::NotFinite&) {
      throw;
    } catch (const Error& error) {
      throw Error(in_explore_options(error.what()));
    }
  });
}

}  // namespace rapt::cli
