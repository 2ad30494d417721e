#include "cli/run_report.h"

#include <cstdio>

#include "tasks/field_text.h"

namespace rapt::cli {

std::string format_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", x);
  return text;
}

std::string describe(const tasks::RunConfig& config, std::int64_t parameters) {
  std::string text(tasks::name_of(config.model.kind));
  if (config.model.kind == models::Kind::seq2seq) {
    const models::Seq2seqConfig& m = config.model.seq2seq;
    text += std::string(" of ") + (m.bidirectional ? "bidirectional " : "") + std::string(tasks::name_of(m.cell)) +
            " layers: " + std::to_string(m.layers) + " × " + std::to_string(m.hidden) + " units, attention " +
            m.attention;
    if (m.attention == "none") text += ", conditioned at " + std::string(tasks::name_of(m.conditioning));
    if (m.input_feeding) text += ", input feeding";
  } else {
    const models::TransformerConfig& m = config.model.transformer;
    text += ": " + std::to_string(m.layers) + " layers of width " + std::to_string(m.width) + ", " +
            std::to_string(m.heads) + " heads of " + m.attention + ", positions " +
            std::string(tasks::name_of(m.positions));
  }
  return text + "; " + std::to_string(parameters) + " parameters";
}

std::string scores_line(const training::Validation& v) {
  char text[192];
  std::snprintf(text, sizeof text,
                "%lld sequences, exact match %.2f %%, symbol error %.2f %%, tokens right %.2f %%, loss %.4f",
                static_cast<long long>(v.scores.sequences()), 100 * v.scores.exact_match(),
                100 * v.scores.symbol_error_rate(), 100 * v.scores.token_accuracy(), v.loss);
  return text;
}

nlohmann::ordered_json scores_json(const training::Validation& v) {
  return {{"sequences", v.scores.sequences()},           {"exact_match", v.scores.exact_match()},
          {"sequence_error", v.scores.sequence_error()}, {"symbol_error", v.scores.symbol_error_rate()},
          {"token_accuracy", v.scores.token_accuracy()}, {"loss", v.loss}};
}

}  // namespace rapt::cli
