#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iostream>
#include <memory>
#include <utility>

#include "attend/counted.h"
#include "cli/ensemble.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/plot_output.h"
#include "cli/run_report.h"
#include "cli/verbs.h"
#include "pictures/heatmap.h"
#include "rapt/threads.h"
#include "tasks/ensemble_run.h"
#include "tensor/files.h"
#include "training/not_finite.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDecodeFooter =
    "Each TEXT, or each line of standard input, gives one line of output as soon as it is ready. With\n"
    "--nbest N there are N lines, each rank TAB score TAB text. A symbol outside the vocabulary is read\n"
    "as unknown and reported; an empty line gives an empty line. A line that cannot be decoded is\n"
    "reported by its number and gives an empty line too; the exit status is then 1. --align writes the\n"
    "alignment of every input as links source-target, counted from 0 (Pharaoh: 0-2 1-1), or, when the\n"
    "file ends in .json, the whole matrices, rows = target tokens; - is the standard output. --plot and\n"
    "--align show the mean over the heads of a Transformer's last decoder layer.\n"
    "\n"
    "Examples:\n"
    "  rapt decode runs/reverse abacadabacc --plot map.png\n"
    "  rapt decode runs/g2p hello world --beam 5 --nbest 3\n"
    "  rapt decode runs/mine --align links.txt < lines.txt > answers.txt\n"
    "  rapt decode runs/a --ensemble runs/b --ensemble runs/c --beam 5 hello\n";

constexpr std::size_t kAtOnce = 512;

struct DecodeArguments {
  std::string run, beam, nbest, length_penalty, align, plot, format, threads;
  std::vector<std::string> texts, ensemble;
  bool json = false;
};

struct Line {
  std::size_t number = 0;  // from 1
  std::string text;
  std::vector<std::string> tokens;
  std::vector<int> ids;
  std::string error;  // why it cannot be decoded
};

class Decoding {
 public:
  Decoding(const DecodeArguments& a, tasks::EnsembleRun runs)
      : a_(a),
        runs_(std::move(runs)),
        models_(runs_.models()),
        data_(runs_.config().data),
        source_(runs_.config().source_symbols),
        target_(runs_.config().target_symbols),
        threads_(a.threads.empty() ? default_threads() : parse_threads("decode: --threads", a.threads)) {
    search_.beam = whole("--beam", a.beam, search_.beam);
    search_.nbest = whole("--nbest", a.nbest, search_.nbest);
    if (a.beam.empty()) search_.beam = search_.nbest;
    if (search_.nbest > search_.beam)
      refuse("decode: --nbest", a.nbest, "at most --beam, " + std::to_string(search_.beam));
    if (!a.length_penalty.empty())
      search_.length_penalty = parse_number("decode: --length-penalty", a.length_penalty, "a number");
    if (a.plot.empty() && !a.format.empty()) throw Error("decode: --format: expected --plot with it, got none");
    // Checked before the answers, which may take hours.
    if (!a.plot.empty()) {
      format_ = format_of("decode: --plot", a.plot, a.format);
      check_output_file("decode: --plot", a.plot);
    }
    if (!a.align.empty()) check_output_file("decode: --align", a.align);
    check_standard_output("decode", {{"--json", a.json},
                                     {"--align " + a.align, is_standard_output(a.align)},
                                     {"--plot " + a.plot, is_standard_output(a.plot)}});
    if ((!a.align.empty() || !a.plot.empty()) && !models_.has_attention())
      throw Error("decode: " + std::string(a.align.empty() ? "--plot" : "--align") +
                  ": expected a model with attention (rapt train --attention NAME), got the one in " + unattending() +
                  ", which has none");
  }

  void add(const std::string& text) {
    ++count_;
    Line line{count_, text, {}, {}, {}};
    try {
      if (!text.empty()) line.tokens = data_.split_source(text);
    } catch (const Error& e) {
      line.error = e.what();
    }
    line.ids = source_.encode(line.tokens);
    for (const std::string& note : tasks::unknown_notes(line.tokens, line.ids))
      std::cerr << "rapt: decode: line " << count_ << ": " << one_line(note) << std::endl;
    lines_.push_back(std::move(line));
    if (lines_.size() == kAtOnce) flush();
  }

  // Answers the lines that are waiting.
  void flush() {
    if (lines_.empty()) return;
    answer(lines_);
    lines_.clear();
    std::cout.flush();
  }

  std::size_t answered() const { return answered_; }

  // False if a line could not be decoded.
  bool finish() {
    flush();
    if (!a_.align.empty()) write_file(a_.align, a_.align.ends_with(".json") ? matrices_.dump() + "\n" : links_);
    if (a_.json) std::cout << results_.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
    return !failed_;
  }

 private:
  static int whole(const char* option, const std::string& text, int otherwise) {
    if (text.empty()) return otherwise;
    const std::string name = std::string("decode: ") + option;
    const std::int64_t n = parse_integers(name, text, "1 to 1000", 1)[0];
    if (n < 1 || n > 1000) refuse(name, text, "1 to 1000");
    return static_cast<int>(n);
  }

  // The first run whose model has no attention.
  std::string unattending() const {
    std::size_t n = 0;
    while (runs_.runs[n].model->has_attention()) ++n;
    return n == 0 ? a_.run : a_.ensemble[n - 1];
  }

  std::string alignment_name() const {
    const std::string first = runs_.runs.front().model->alignment_name();
    return runs_.runs.size() == 1 ? first : "mean of " + std::to_string(runs_.runs.size()) + " models: " + first;
  }

  // All together; if that fails, one by one, so that a line the model cannot take does not lose the others.
  void answer(std::span<Line> lines) {
    if (stopped_) return;
    std::vector<std::vector<int>> sources;
    for (const Line& line : lines) sources.push_back(line.error.empty() ? line.ids : std::vector<int>{});
    std::vector<std::vector<training::Hypothesis>> answers;
    try {
      answers = training::translate(models_, sources, search_, threads_, 0, Interrupt::asked);
    } catch (const Error& e) {
      if (lines.size() > 1) {
        for (std::size_t n = 0; n < lines.size() && !Interrupt::asked(); ++n) answer(lines.subspan(n, 1));
        return;
      }
      lines[0].error = e.what();
    }
    for (std::size_t n = 0; n < answers.size(); ++n)
      if (lines[n].error.empty()) lines[n].error = complaint(answers[n]);
    for (std::size_t n = 0; n < lines.size(); ++n) {
      const bool refused = !lines[n].error.empty();
      // Short lines are decoded first, but printed in order.
      stopped_ = !refused && answers[n].empty();
      if (stopped_) return;
      if (refused) refuse_line(lines[n]);
      else print(lines[n], answers[n]);
      ++answered_;
    }
  }

  // If a model's numbers overflow, no answer is worth printing.
  static std::string complaint(const std::vector<training::Hypothesis>& answers) {
    for (const training::Hypothesis& one : answers)
      if (!std::isfinite(one.log_probability))
        return "expected a score that is a number, got " + training::name_of_not_finite(one.log_probability);
    return "";
  }

  // A message, and an empty answer.
  void refuse_line(const Line& line) {
    failed_ = true;
    std::cerr << "rapt: decode: line " << line.number << ": " << one_line(line.error) << std::endl;
    if (a_.json) results_.push_back({{"source", line.text}, {"hypotheses", Json::array()}, {"error", line.error}});
    else std::cout << "\n";
    links_ += "\n";
    if (a_.align.ends_with(".json"))
      matrices_.push_back({{"source", Json::array()}, {"target", Json::array()}, {"weights", Json::array()}});
  }

  void print(const Line& line, const std::vector<training::Hypothesis>& answers) {
    Json entry{{"source", line.text}, {"hypotheses", Json::array()}};
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      const std::string text = data_.join_target(target_.decode(answers[rank].tokens));
      if (a_.json)
        entry["hypotheses"].push_back({{"text", text},
                                       {"score", answers[rank].score},
                                       {"log_probability", answers[rank].log_probability},
                                       {"finished", answers[rank].finished}});
      else if (search_.nbest > 1)
        std::cout << rank + 1 << "\t" << format_number(answers[rank].score) << "\t" << text << "\n";
      else std::cout << text << "\n";
    }
    if (a_.json) results_.push_back(std::move(entry));
    show(line, answers.front());
  }

  // The map of the best answer, computed with its own tokens, so that it does not depend on the beam.
  void show(const Line& line, const training::Hypothesis& best) {
    const bool picture = !a_.plot.empty() && !drawn_ && !line.ids.empty();
    if (a_.align.empty() && !picture) return;
    const std::size_t keys = line.ids.size();
    const std::size_t rows = line.ids.empty() ? 0 : best.tokens.size();
    std::vector<float> map;
    if (rows > 0 || picture) map = training::align(models_, {line.ids, best.tokens});
    std::string links;
    Json matrix = Json::array();
    for (std::size_t t = 0; t < rows; ++t) {
      const std::span<const float> row(map.data() + t * keys, keys);
      const auto place = std::max_element(row.begin(), row.end()) - row.begin();
      links += (t > 0 ? " " : "") + std::to_string(place) + "-" + std::to_string(t);
      matrix.push_back(row);
    }
    links_ += links + "\n";
    const std::vector<std::string> target = target_.decode(best.tokens);
    if (a_.align.ends_with(".json"))
      matrices_.push_back({{"source", line.tokens}, {"target", target}, {"weights", matrix}});
    if (!picture) return;
    drawn_ = true;
    std::vector<std::string> labels = target;
    labels.emplace_back("<end>");
    const std::string shown = alignment_name();
    write_file(a_.plot, encode_picture(pictures::heat_map(map, line.tokens, labels, shown), format_));
    std::cerr << "wrote " << one_line(a_.plot) << ": " << shown << " for line " << line.number << std::endl;
  }

  const DecodeArguments& a_;
  tasks::EnsembleRun runs_;
  models::Ensemble models_;
  const tasks::DataConfig& data_;
  tasks::Vocabulary source_, target_;
  int threads_;
  training::SearchOptions search_;
  pictures::PictureFormat format_ = pictures::PictureFormat::svg;
  std::vector<Line> lines_;
  std::size_t count_ = 0;
  std::size_t answered_ = 0;
  bool stopped_ = false;  // a line was left unanswered
  bool drawn_ = false;
  bool failed_ = false;
  std::string links_;
  Json matrices_ = Json::array();
  Json results_ = Json::array();
};

// Lines of the standard input as they arrive: those that have arrived are answered before the next is waited for.
class LineReader {
 public:
  // False at the end of the input.
  bool next(std::string& line) {
    while (!Interrupt::asked()) {
      if (const std::size_t end = buffer_.find('\n', begin_); end != std::string::npos) {
        line = buffer_.substr(begin_, end - begin_);
        begin_ = end + 1;
        return true;
      }
      buffer_.erase(0, begin_);
      begin_ = 0;
      // A signal restarts read(), so Ctrl-C would go unnoticed.
      if (!ready(kLook)) continue;
      std::array<char, 1 << 16> part;
      const ssize_t got = ::read(STDIN_FILENO, part.data(), part.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Error(std::string("decode: cannot read the standard input: ") + std::strerror(errno));
      if (got > 0) {
        buffer_.append(part.data(), static_cast<std::size_t>(got));
        continue;
      }
      line = std::exchange(buffer_, {});
      return !line.empty();
    }
    return false;
  }

  // Whether a line, or the end, arrives within so many milliseconds.
  bool ready(int milliseconds = 0) const {
    if (buffer_.find('\n', begin_) != std::string::npos) return true;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, milliseconds) > 0;
  }

 private:
  static constexpr int kLook = 100;  // milliseconds between checks for Ctrl-C

  std::string buffer_;
  std::size_t begin_ = 0;
};

void decode(const DecodeArguments& a) {
  const Interrupt interrupt;
  Decoding decoding(a, tasks::load_ensemble(run_paths(a.run, a.ensemble)));
  for (const std::string& text : a.texts) decoding.add(text);
  if (a.texts.empty()) {
    LineReader reader;
    for (std::string line; reader.next(line);) {
      if (line.ends_with('\r')) line.pop_back();
      decoding.add(line);
      if (!reader.ready()) decoding.flush();
    }
  }
  const bool good = decoding.finish();
  if (Interrupt::asked()) {
    std::cerr << "rapt: decode: stopped after " << counted(decoding.answered(), "line") << std::endl;
    throw ExitStatus{kInterrupted};
  }
  if (!good) throw ExitStatus{1};
}

}  // namespace

void add_decode(CLI::App& app) {
  auto a = std::make_shared<DecodeArguments>();
  CLI::App* verb = app.add_subcommand("decode", "Turn sequences into sequences with a trained model");
  verb->footer(kDecodeFooter);
  const auto option = [&](const char* name, std::string& to, const char* type, const std::string& help) {
    return verb->add_option(name, to, help)->type_name(type)->check(value_given());
  };
  const training::SearchOptions search;
  option("RUN", a->run, "", "The directory of a run")->required();
  verb->add_option("TEXT", a->texts, "What to decode [the lines of standard input]")->type_name("");
  option("--beam", a->beam, "N",
         "Hypotheses kept while searching; 1: greedy [" + std::to_string(search.beam) + ", or as many as --nbest]");
  option("--nbest", a->nbest, "N", "Answers printed for each input [" + std::to_string(search.nbest) + "]");
  option("--length-penalty", a->length_penalty, "X",
         "Divide scores by ((5 + length)/6)^X [" + format_number(search.length_penalty) + "]");
  add_ensemble(*verb, a->ensemble);
  option("--align", a->align, "FILE", "Write alignments to this file; -: the standard output");
  option("--plot", a->plot, "FILE", "Draw the first input's attention, as .svg, .png or .pdf; -: the standard output");
  option("--format", a->format, "svg|png|pdf",
         "Format of --plot where its name has no extension, as with - or /dev/stdout");
  option("--threads", a->threads, "N", "Threads; the result does not depend on them [all processors]");
  verb->add_flag("--json", a->json, "Print the results as JSON");
  verb->callback([a] { decode(*a); });
}

}  // namespace rapt::cli
