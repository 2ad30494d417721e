#include <cmath>

#include "rapt/error.h"
#include "solve/numbers.h"
#include "solve/print.h"

// The same attention, one vector at a time.
namespace rapt::solve {
namespace {

// Longer sums are abbreviated with Σ.
constexpr std::int64_t kMaxTerms = 6;

class VectorWriter {
 public:
  VectorWriter(const WorkedProblem& problem, const Solution& solution, int precision)
      : problem_(problem), solution_(solution), precision_(precision) {}

  std::vector<VectorLine> write() {
    for (const HeadVectors& head : solution_.vectors) write_head(head);
    if (!solution_.result.empty() && (solution_.vectors.size() > 1 || problem_.output.given() || problem_.residual))
      write_results();
    return std::move(lines_);
  }

 private:
  std::string number(double x, bool small_counts = false) const { return plain_number(x, precision_, small_counts); }
  std::string number_latex(double x, bool small_counts = false) const {
    return choose_format({&x, 1}, precision_, small_counts).latex(x);
  }

  Notation vector(std::span<const double> numbers) const {
    Notation result{"[", "\\begin{bmatrix} "};
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      result.text += (n ? ", " : "") + number(numbers[n]);
      result.latex += (n ? " & " : "") + number_latex(numbers[n]);
    }
    return {result.text + "]", result.latex + " \\end{bmatrix}"};
  }

  // x_2, or q(0)_2 for a head's own vector among several heads.
  Notation named(const std::string& name, std::size_t head, const std::string& index, bool of_head = true) const {
    std::string letter = name;
    if (letter == "X") letter = "x";
    const Notation base = of_head ? with_head({letter, letter}, head, problem_.heads.size()) : Notation{letter, letter};
    return {base.text + "_" + index, base.latex + "_{" + index + "}"};
  }

  // Indices are joined as in e_12 while each has one digit.
  std::string pair_index(std::int64_t i, std::int64_t j) const {
    const bool short_form = problem_.q.rows < 10 && problem_.k.rows < 10;
    return std::to_string(i + 1) + (short_form ? "" : ",") + std::to_string(j + 1);
  }

  void add(const std::string& section, Notation left, std::vector<Notation> parts) {
    lines_.push_back({section, std::move(left), std::move(parts)});
  }

  void write_projection(const HeadVectors& head, const std::string& section, const char* letter,
                        const Projection& projection, const Matrix& input, const Matrix& projected, std::int64_t row) {
    if (!projection.given()) return;
    const std::string upper(1, static_cast<char>(letter[0] - 'a' + 'A'));
    const std::string own = input.data == problem_.x.data ? problem_.input_name : letter;
    const Notation x = named(own, head.head, std::to_string(row + 1), false);
    const Notation w = with_head({"W_" + upper, "W_" + upper}, head.head, problem_.heads.size());
    Notation product = problem_.columns ? Notation{w.text + " " + x.text, w.latex + " " + x.latex}
                                        : Notation{x.text + " " + w.text, x.latex + " " + w.latex};
    if (!projection.bias.empty()) product = {product.text + " + b_" + upper, product.latex + " + b_" + upper};
    add(section, named(letter, head.head, std::to_string(row + 1)), {product, vector(projected.row(row))});
  }

  void write_score(const HeadVectors& head, const std::string& section, std::int64_t i, std::int64_t j) {
    const Matrix& q = head.inputs.q;
    const Matrix& k = head.inputs.k;
    const Notation qi =
        named(head.q, head.head, std::to_string(i + 1), head.q == "q" && problem_.heads[head.head].query.given());
    const Notation kj =
        named(head.k, head.head, std::to_string(j + 1), head.k == "k" && problem_.heads[head.head].key.given());
    std::vector<Notation> parts;
    const std::string_view name = problem_.mechanism->name();
    if (name == "dot" || name == "scaled_dot") {
      Notation sum;
      for (std::int64_t d = 0; d < q.cols; ++d) {
        const auto factor = [](const std::string& x, bool leads) {
          return x.starts_with('-') && !leads ? "(" + x + ")" : x;
        };
        sum.text += (d ? " + " : "") + factor(number(q(i, d)), d == 0) + "·" + factor(number(k(j, d)), false);
        sum.latex += (d ? " + " : "") + factor(number_latex(q(i, d)), d == 0) + " \\cdot " +
                     factor(number_latex(k(j, d)), false);
      }
      parts.push_back(scaled({qi.text + "·" + kj.text, qi.latex + " \\cdot " + kj.latex}, k.cols));
      if (q.cols <= kMaxTerms) parts.push_back(scaled(sum, k.cols));
    } else {
      parts.push_back({std::string(name) + "(" + qi.text + ", " + kj.text + ")",
                       score_notation(*problem_.mechanism, qi, kj).latex});
    }
    const double score = head.result.scores(i, j);
    parts.push_back({number(score), number_latex(score)});
    add(section, named("e", head.head, pair_index(i, j)), std::move(parts));
    if (!head.result.changed) return;
    const double logit = head.result.logits(i, j);
    add(section, named("l", head.head, pair_index(i, j)),
        {{"e_" + pair_index(i, j) + " after softcap, bias and mask", "\\text{after softcap, bias and mask}"},
         {number(logit), number_latex(logit)}});
  }

  Notation scaled(const Notation& product, std::int64_t key_dim) const {
    if (problem_.scale && *problem_.scale != 1) {
      const std::string scale = shortest(*problem_.scale);
      return {scale + "·(" + product.text + ")", scale + " (" + product.latex + ")"};
    }
    if (problem_.scale || !problem_.mechanism->scaled()) return product;
    const std::string root = std::to_string(key_dim);
    return {"(" + product.text + ") / √" + root, "\\frac{" + product.latex + "}{\\sqrt{" + root + "}}"};
  }

  void write_weight(const HeadVectors& head, const std::string& section, std::int64_t i, std::int64_t j) {
    const std::string letter = head.result.changed ? "l" : "e";
    const Notation own = named(letter, head.head, pair_index(i, j));
    const std::string row = std::to_string(i + 1);
    const std::string col = std::to_string(j + 1);
    const Notation any = named(letter, head.head, problem_.axis == SoftmaxAxis::columns ? "k" + col : row + "k");
    Notation formula{"exp(" + own.text + ") / Σ_k exp(" + any.text + ")",
                     "\\frac{\\exp(" + own.latex + ")}{\\sum_k \\exp(" + any.latex + ")}"};
    if (problem_.normalizer == Normalizer::argmax)
      formula = {"1 if " + own.text + " is the first largest of its row, else 0",
                 "[" + own.latex + " = \\max_k " + any.latex + "]"};
    const double weight = head.result.weights(i, j);
    add(section, named("a", head.head, pair_index(i, j)),
        {formula, {number(weight, true), number_latex(weight, true)}});
  }

  void write_output(const HeadVectors& head, const std::string& section, std::int64_t i) {
    if (head.result.out.empty()) return;
    const Matrix& v = head.inputs.v.front();
    const bool own = head.v == "v" && problem_.heads[head.head].value.given();
    const Notation any_v = named(head.v, head.head, "j", own);
    const Notation any_a = named("a", head.head, std::to_string(i + 1) + "j");
    std::vector<Notation> parts{{"Σ_j " + any_a.text + " " + any_v.text, "\\sum_j " + any_a.latex + " " + any_v.latex}};
    if (v.rows <= kMaxTerms && v.cols <= kMaxTerms) {
      Notation sum;
      for (std::int64_t j = 0; j < v.rows; ++j) {
        const double weight = head.result.weights(i, j);
        const Notation row = vector(v.row(j));
        sum.text += (j ? " + " : "") + number(weight, true) + " " + row.text;
        sum.latex += (j ? " + " : "") + number_latex(weight, true) + " " + row.latex;
      }
      parts.push_back(std::move(sum));
    }
    parts.push_back(vector(head.result.out.front().row(i)));
    add(section, named("z", head.head, std::to_string(i + 1)), std::move(parts));
  }

  void write_head(const HeadVectors& head) {
    const ProblemHead& given = problem_.heads[head.head];
    const std::string section = head_section(head.head, problem_.heads.size());
    for (std::int64_t j = 0; j < problem_.k.rows; ++j) {
      write_projection(head, section + ": keys and values", "k", given.key, problem_.k, head.inputs.k, j);
      if (!head.inputs.v.empty())
        write_projection(head, section + ": keys and values", "v", given.value, problem_.v, head.inputs.v.front(), j);
    }
    for (const std::int64_t i : shown_rows(problem_, problem_.q.rows)) {
      const std::string part = section + ": i = " + std::to_string(i + 1);
      write_projection(head, part, "q", given.query, problem_.q, head.inputs.q, i);
      for (std::int64_t j = 0; j < problem_.k.rows; ++j) write_score(head, part, i, j);
      for (std::int64_t j = 0; j < problem_.k.rows; ++j) write_weight(head, part, i, j);
      write_output(head, part, i);
    }
  }

  void write_results() {
    const std::size_t heads = solution_.vectors.size();
    for (const std::int64_t i : shown_rows(problem_, problem_.q.rows)) {
      const std::string index = std::to_string(i + 1);
      Notation formula = heads == 1 ? named("z", 0, index) : Notation{"[", "["};
      for (std::size_t h = 0; heads > 1 && h < heads; ++h) {
        const Notation z = named("z", h, index);
        formula = {formula.text + (h ? ", " : "") + z.text, formula.latex + (h ? ", " : "") + z.latex};
      }
      if (heads > 1) formula = {formula.text + "]", formula.latex + "]"};
      if (problem_.output.given())
        formula = problem_.columns ? Notation{"W_O " + formula.text, "W_O " + formula.latex}
                                   : Notation{formula.text + " W_O", formula.latex + " W_O"};
      if (!problem_.output.bias.empty()) formula = {formula.text + " + b_O", formula.latex + " + b_O"};
      if (problem_.residual) {
        const Notation x = named(problem_.input_name, 0, index, false);
        formula = {formula.text + " + " + x.text, formula.latex + " + " + x.latex};
      }
      add("Result", named("y", 0, index, false), {formula, vector(solution_.result.row(i))});
    }
  }

  const WorkedProblem& problem_;
  const Solution& solution_;
  int precision_;
  std::vector<VectorLine> lines_;
};

}  // namespace

std::vector<VectorLine> vector_lines(const WorkedProblem& problem, const Solution& solution, int precision) {
  if (solution.vectors.empty())
    throw Error("solve: " + problem.file +
                ": expected queries, keys and values for the per-vector form, got a limit, a count or shared "
                "attention");
  return VectorWriter(problem, solution, precision).write();
}

}  // namespace rapt::solve
