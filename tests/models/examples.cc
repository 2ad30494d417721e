#include "tests/models/examples.h"

#include <algorithm>

#include "tensor/token_ids.h"

namespace rapt::models::test {

Batch batch_of(const std::vector<Pair>& pairs) {
  Batch batch;
  batch.size = static_cast<int>(pairs.size());
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    batch.source_steps = std::max(batch.source_steps, static_cast<int>(pairs[n].source.size()));
    batch.target_steps = std::max(batch.target_steps, static_cast<int>(pairs[n].target.size()) + 1);
    batch.source_lengths.push_back(static_cast<std::int64_t>(pairs[n].source.size()));
    batch.target_lengths.push_back(static_cast<std::int64_t>(pairs[n].target.size()) + 1);
    batch.index.push_back(static_cast<std::int64_t>(n));
  }
  batch.source.assign(static_cast<std::size_t>(batch.source_steps * batch.size), kPad);
  batch.target_in.assign(static_cast<std::size_t>(batch.target_steps * batch.size), kPad);
  batch.target_out = batch.target_in;
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    const auto size = static_cast<std::size_t>(batch.size);
    for (std::size_t t = 0; t < pairs[n].source.size(); ++t) batch.source[t * size + n] = pairs[n].source[t];
    batch.target_in[n] = kBegin;
    for (std::size_t t = 0; t < pairs[n].target.size(); ++t) {
      batch.target_in[(t + 1) * size + n] = pairs[n].target[t];
      batch.target_out[t * size + n] = pairs[n].target[t];
    }
    batch.target_out[pairs[n].target.size() * size + n] = kEnd;
  }
  return batch;
}

Pair random_pair(Random& random, int source_length, int target_length, int symbols) {
  Pair pair;
  const auto fill = [&](std::vector<int>& ids, int length) {
    for (int n = 0; n < length; ++n)
      ids.push_back(kFirstSymbol + static_cast<int>(random.below(static_cast<std::uint64_t>(symbols - kFirstSymbol))));
  };
  fill(pair.source, source_length);
  fill(pair.target, target_length);
  return pair;
}

template <class T>
std::vector<T> random_values(const SequenceModel& model, std::uint64_t seed, double spread) {
  std::vector<T> values(static_cast<std::size_t>(model.parameters().size()));
  Random random(seed, 17);
  for (const layers::Parameter& p : model.parameters().list())
    for (std::int64_t n = 0; n < p.count; ++n)
      values[static_cast<std::size_t>(p.offset + n)] =
          static_cast<T>(spread * random.normal() + (p.name.ends_with("gain") ? 1 : 0));
  return values;
}

template <class T>
std::vector<T> logits_of(const SequenceModel& model, const std::vector<T>& values, const Batch& batch,
                         Alignment<T>* alignment) {
  Tape<T> tape(false);
  layers::Graph<T> graph(tape, model.parameters(), values.data(), nullptr);
  const Tensor<T> logits = model.logits(graph, batch, alignment);
  return {logits.data, logits.data + logits.count()};
}

std::string name_of(const testing::TestParamInfo<Named>& info) { return info.param.name; }

std::vector<Named> seq2seq_models() {
  std::vector<Named> list;
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    const std::string prefix = cell == Cell::rnn ? "rnn_" : cell == Cell::gru ? "gru_" : "lstm_";
    const auto add = [&](const std::string& name, const std::string& attention) -> Seq2seqConfig& {
      Named one;
      one.name = prefix + name;
      one.config.kind = Kind::seq2seq;
      Seq2seqConfig& c = one.config.seq2seq;
      c.cell = cell;
      c.embedding = 3;
      c.hidden = 4;
      c.attention = attention;
      list.push_back(one);
      return list.back().config.seq2seq;
    };
    add("first_step", "none");
    add("every_step", "none").conditioning = Conditioning::every_step;
    for (const char* name : {"dot", "argmax", "additive", "bilinear", "alibi", "shaw", "transformer_xl"})
      add(name, name);
    for (const char* name : {"sparsemax", "entmax15", "sigmoid"}) add(name, "dot").normalize = name;
    add("input_feeding", "dot").input_feeding = true;
    add("input_feeding_shaw", "shaw").input_feeding = true;
    Seq2seqConfig& deep = add("two_layers_both_ways", "scaled_dot");
    deep.layers = 2;
    deep.bidirectional = true;
    Seq2seqConfig& fed = add("two_layers_every_step", "none");
    fed.layers = 2;
    fed.conditioning = Conditioning::every_step;
    fed.bidirectional = true;
  }
  return list;
}

std::vector<Named> transformer_models() {
  std::vector<Named> list;
  const auto add = [&](const std::string& name) -> TransformerConfig& {
    Named one;
    one.name = "transformer_" + name;
    one.config.kind = Kind::transformer;
    TransformerConfig& c = one.config.transformer;
    c.width = 8;
    c.heads = 2;
    c.inner = 6;
    c.layers = 2;
    c.dropout = 0;
    list.push_back(one);
    return list.back().config.transformer;
  };
  add("pre_norm");
  add("post_norm").pre_norm = false;
  add("untied").tied = false;
  add("learned").positions = layers::Positions::learned;
  add("rotary").positions = layers::Positions::rotary;
  add("none").positions = layers::Positions::none;
  TransformerConfig& hot = add("one_hot");
  hot.positions = layers::Positions::one_hot;
  hot.concatenate_positions = true;
  TransformerConfig& beside = add("sinusoidal_beside");
  beside.concatenate_positions = true;
  beside.pre_norm = false;
  for (const char* name : {"t5", "alibi", "shaw", "transformer_xl", "additive"}) {
    TransformerConfig& relative = add(name);
    relative.positions = layers::Positions::none;
    relative.attention = name;
  }
  for (const char* name : {"sparsemax", "entmax15", "sigmoid"}) add(name).normalize = name;
  TransformerConfig& sparse = add("sparsemax_t5");
  sparse.positions = layers::Positions::none;
  sparse.attention = "t5";
  sparse.normalize = "sparsemax";
  add("cross_alibi").cross_attention = "alibi";
  TransformerConfig& texts = add("formulas");
  texts.formula = {.score = "raw*scale - m*abs(i-j)", .pair = "", .visible = ""};
  texts.cross_formula = {.score = "c*raw + t[clip(j-i,-3,3)+3]", .pair = "w*tanh(q+k)", .visible = "j < 60 or i < 9"};
  for (const char* name : {"scaled_dot", "transformer_xl"}) {
    TransformerConfig& wide = add(std::string("wide_") + name);
    wide.width = 68;
    wide.heads = 4;
    wide.inner = 70;
    wide.layers = 1;
    wide.attention = name;
  }
  return list;
}

std::vector<Named> all_models() {
  std::vector<Named> list = seq2seq_models();
  for (const Named& one : transformer_models()) list.push_back(one);
  return list;
}

template std::vector<float> random_values(const SequenceModel&, std::uint64_t, double);
template std::vector<double> random_values(const SequenceModel&, std::uint64_t, double);
template std::vector<float> logits_of(const SequenceModel&, const std::vector<float>&, const Batch&, Alignment<float>*);
template std::vector<double> logits_of(const SequenceModel&, const std::vector<double>&, const Batch&,
                                       Alignment<double>*);

}  // namespace rapt::models::test
