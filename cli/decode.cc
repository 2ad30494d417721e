#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/options.h"
#include "cli/run_report.h"
#include "cli/verbs.h"
#include "pictures/heatmap.h"
#include "pictures/picture_file.h"
#include "rapt/threads.h"
#include "tasks/sequence_run.h"
#include "tensor/files.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    "Each TEXT, or each line of the standard input, gives one line of output. With --nbest N there are N lines, each\n"
    "rank TAB score TAB text. A symbol that training never saw is read as unknown and reported; an empty line gives "
    "an\n"
    "empty line. --align writes for every input its alignment as source-target pairs (Pharaoh: 0-2 1-1), or, when the\n"
    "file ends in .json, the whole matrices, rows = target tokens.\n"
    "\n"
    "Examples:\n"
    "  rapt decode runs/reverse abacadabacc --plot map.png\n"
    "  rapt decode runs/g2p hello world --beam 5 --nbest 3\n"
    "  rapt decode runs/mine --align links.txt < lines.txt > answers.txt\n";

constexpr std::size_t kAtOnce = 512;

struct DecodeArguments {
  std::string run, beam, nbest, length_penalty, align, plot, threads;
  std::vector<std::string> texts;
  bool json = false;
};

struct Line {
  std::string text;
  std::vector<std::string> tokens;
  std::vector<int> ids;
};

class Decoding {
 public:
  Decoding(const DecodeArguments& a, tasks::SequenceRun run)
      : a_(a),
        run_(std::move(run)),
        source_(run_.config.source_symbols),
        target_(run_.config.target_symbols),
        threads_(a.threads.empty() ? default_threads() : parse_threads("decode: --threads", a.threads)) {
    search_.beam = whole("--beam", a.beam, 1);
    search_.nbest = whole("--nbest", a.nbest, 1);
    if (a.beam.empty()) search_.beam = search_.nbest;
    if (search_.nbest > search_.beam)
      refuse("decode: --nbest", a.nbest, "at most --beam, " + std::to_string(search_.beam));
    if (!a.length_penalty.empty())
      search_.length_penalty = parse_number("decode: --length-penalty", a.length_penalty, "a number");
    if ((!a.align.empty() || !a.plot.empty()) && !run_.model->has_attention())
      throw Error("decode: the model in " + a.run + " has no attention to show; train one with --attention NAME");
  }

  void add(const std::string& text) {
    ++count_;
    Line line{text, {}, {}};
    try {
      if (!text.empty()) line.tokens = run_.config.data.split_source(text);
    } catch (const Error& e) {
      throw Error("decode: line " + std::to_string(count_) + ": " + e.what());
    }
    line.ids = source_.encode(line.tokens);
    for (std::size_t n = 0; n < line.ids.size(); ++n)
      if (line.ids[n] == tasks::kUnknown)
        std::cerr << "rapt: decode: line " << count_ << ": '" << one_line(line.tokens[n])
                  << "' was not in the training data; it is read as unknown" << std::endl;
    lines_.push_back(std::move(line));
    if (lines_.size() == kAtOnce) flush();
  }

  void finish() {
    flush();
    if (!a_.align.empty()) write_file(a_.align, a_.align.ends_with(".json") ? matrices_.dump() + "\n" : links_);
    if (a_.json) std::cout << results_.dump(2) << std::endl;
  }

 private:
  static int whole(const char* option, const std::string& text, int otherwise) {
    if (text.empty()) return otherwise;
    const std::string name = std::string("decode: ") + option;
    const std::int64_t n = parse_integers(name, text, "1 to 1000", 1)[0];
    if (n < 1 || n > 1000) refuse(name, text, "1 to 1000");
    return static_cast<int>(n);
  }

  void flush() {
    std::vector<std::vector<int>> sources;
    for (const Line& line : lines_) sources.push_back(line.ids);
    const auto answers = training::translate(*run_.model, run_.values.data(), sources, search_, threads_);
    for (std::size_t n = 0; n < lines_.size(); ++n) print(lines_[n], answers[n]);
    lines_.clear();
  }

  void print(const Line& line, const std::vector<training::Hypothesis>& answers) {
    Json entry{{"source", line.text}, {"hypotheses", Json::array()}};
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      const std::string text = run_.config.data.join_target(target_.decode(answers[rank].tokens));
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

  // The map of the best answer, with its own tokens given: what search followed, whatever the beam was.
  void show(const Line& line, const training::Hypothesis& best) {
    const bool picture = !a_.plot.empty() && !drawn_ && !line.ids.empty();
    if (a_.align.empty() && !picture) return;
    const std::size_t keys = line.ids.size();
    const std::size_t rows = line.ids.empty() ? 0 : best.tokens.size();
    std::vector<float> map;
    if (rows > 0 || picture) map = training::align(*run_.model, run_.values.data(), {line.ids, best.tokens});
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
    pictures::write_picture(pictures::heat_map(map, line.tokens, labels), a_.plot);
  }

  const DecodeArguments& a_;
  tasks::SequenceRun run_;
  tasks::Vocabulary source_, target_;
  int threads_;
  training::SearchOptions search_;
  std::vector<Line> lines_;
  std::size_t count_ = 0;
  bool drawn_ = false;
  std::string links_;
  Json matrices_ = Json::array();
  Json results_ = Json::array();
};

void decode(const DecodeArguments& a) {
  Decoding decoding(a, tasks::load_sequence_run(a.run));
  for (const std::string& text : a.texts) decoding.add(text);
  if (a.texts.empty()) {
    std::string line;
    while (std::getline(std::cin, line)) {
      if (line.ends_with('\r')) line.pop_back();
      decoding.add(line);
    }
  }
  decoding.finish();
}

}  // namespace

void add_decode(CLI::App& app) {
  auto a = std::make_shared<DecodeArguments>();
  CLI::App* verb = app.add_subcommand("decode", "Turn sequences into sequences with a trained model");
  verb->footer(kFooter);
  verb->add_option("RUN", a->run, "the directory of a run")->required();
  verb->add_option("TEXT", a->texts, "what to decode; without it, the lines of the standard input");
  verb->add_option("--beam", a->beam, "hypotheses kept while searching (1: greedy)");
  verb->add_option("--nbest", a->nbest, "answers printed for each input");
  verb->add_option("--length-penalty", a->length_penalty, "divide scores by ((5 + length)/6)^X");
  verb->add_option("--align", a->align, "write alignments to this file")->check(value_given());
  verb->add_option("--plot", a->plot, "draw the first input's attention, .png or .svg")->check(value_given());
  verb->add_option("--threads", a->threads, "threads; the result does not depend on it");
  verb->add_flag("--json", a->json, "print the results as JSON");
  verb->callback([a] { decode(*a); });
}

}  // namespace rapt::cli
