#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/config.h"
#include "tasks/case.h"
#include "tasks/reverse.h"
#include "tasks/symbol_options.h"
#include "tasks/units.h"
#include "training/options.h"

// Every setting of a run, once: its name, its range and what it is for. The command line and config.json are made from
// these lists. A visitor is called with (name, value, about) or, for numbers, (name, value, low, high, about).
namespace rapt::inline v1::tasks {

template <class E>
struct Names;

template <>
struct Names<models::Kind> {
  static constexpr std::array list{std::pair<std::string_view, models::Kind>{"seq2seq", models::Kind::seq2seq},
                                   std::pair<std::string_view, models::Kind>{"transformer", models::Kind::transformer}};
};
template <>
struct Names<Cell> {
  static constexpr std::array list{std::pair<std::string_view, Cell>{"rnn", Cell::rnn},
                                   std::pair<std::string_view, Cell>{"gru", Cell::gru},
                                   std::pair<std::string_view, Cell>{"lstm", Cell::lstm}};
};
template <>
struct Names<models::Conditioning> {
  static constexpr std::array list{
      std::pair<std::string_view, models::Conditioning>{"first_step", models::Conditioning::first_step},
      std::pair<std::string_view, models::Conditioning>{"every_step", models::Conditioning::every_step}};
};
template <>
struct Names<layers::Positions> {
  static constexpr std::array list{
      std::pair<std::string_view, layers::Positions>{"none", layers::Positions::none},
      std::pair<std::string_view, layers::Positions>{"one_hot", layers::Positions::one_hot},
      std::pair<std::string_view, layers::Positions>{"sinusoidal", layers::Positions::sinusoidal},
      std::pair<std::string_view, layers::Positions>{"learned", layers::Positions::learned},
      std::pair<std::string_view, layers::Positions>{"rotary", layers::Positions::rotary}};
};
template <>
struct Names<training::Optimizer> {
  static constexpr std::array list{
      std::pair<std::string_view, training::Optimizer>{"adam", training::Optimizer::adam},
      std::pair<std::string_view, training::Optimizer>{"adamw", training::Optimizer::adamw},
      std::pair<std::string_view, training::Optimizer>{"sgd", training::Optimizer::sgd}};
};
template <>
struct Names<training::Schedule> {
  static constexpr std::array list{
      std::pair<std::string_view, training::Schedule>{"constant", training::Schedule::constant},
      std::pair<std::string_view, training::Schedule>{"inverse_sqrt", training::Schedule::inverse_sqrt},
      std::pair<std::string_view, training::Schedule>{"cosine", training::Schedule::cosine}};
};
template <>
struct Names<Units> {
  static constexpr std::array list{std::pair<std::string_view, Units>{"characters", Units::characters},
                                   std::pair<std::string_view, Units>{"words", Units::words},
                                   std::pair<std::string_view, Units>{"subwords", Units::subwords}};
};
template <>
struct Names<SubwordKind> {
  static constexpr std::array list{std::pair<std::string_view, SubwordKind>{"bpe", SubwordKind::bpe},
                                   std::pair<std::string_view, SubwordKind>{"unigram", SubwordKind::unigram}};
};

template <class E>
std::string_view name_of(E value) {
  for (const auto& [name, one] : Names<E>::list)
    if (one == value) return name;
  return "?";
}

template <class V>
void fields(V& v, layers::FormulaTexts& f) {
  v("attention_formula", f.score, "The score as text, in place of a mechanism; see docs/formulas.md");
  v("attention_pair", f.pair, "Of the formula: what each dimension adds to raw");
  v("attention_visible", f.visible, "Of the formula: the pairs that are seen");
}

template <class V>
void fields(V& v, models::Seq2seqConfig& c) {
  v("attention", c.attention, "A mechanism, argmax, or none");
  fields(v, c.formula);
  v("normalize", c.normalize, "How scores become weights: a normaliser");
  v("cell", c.cell, "Of the layers: rnn, gru or lstm");
  v("embedding", c.embedding, 1, 65536, "Size of an embedding");
  v("hidden", c.hidden, 1, 65536, "Hidden units of a layer; two directions share them");
  v("layers", c.layers, 1, 64, "Layers of the encoder, and of the decoder");
  v("bidirectional", c.bidirectional, "The encoder reads in both directions; =false: forwards");
  v("conditioning", c.conditioning,
    "Without attention: give the decoder the source at its first_step or at every_step");
  v("input_feeding", c.input_feeding, "Feed each step the attentional state of the one before");
  v("dropout", c.dropout, 0, 0.95, "Dropout probability");
}

template <class V>
void fields(V& v, models::TransformerConfig& c) {
  v("attention", c.attention, "Mechanism of self-attention");
  fields(v, c.formula);
  v("cross_attention", c.cross_attention, "Mechanism of the attention to the source");
  v("cross_attention_formula", c.cross_formula.score, "Its score as text, in place of a mechanism");
  v("cross_attention_pair", c.cross_formula.pair, "Of that formula: what each dimension adds to raw");
  v("cross_attention_visible", c.cross_formula.visible, "Of that formula: the pairs that are seen");
  v("normalize", c.normalize, "How scores become weights: a normaliser");
  v("width", c.width, 1, 65536, "Model width");
  v("heads", c.heads, 1, 1024, "Heads of each attention");
  v("inner", c.inner, 1, 1 << 20, "Width of the feed-forward layers");
  v("layers", c.layers, 1, 256, "Layers of the encoder, and of the decoder");
  v("pre_norm", c.pre_norm, "Layer norm before each layer; =false: after it");
  v("tied", c.tied, "Tie the output layer to the decoder's embedding; =false: its own weights");
  v("positions", c.positions, "Positions: none, one_hot, sinusoidal, learned or rotary");
  v("concatenate_positions", c.concatenate_positions, "Concatenate positions to the embedding in place of adding them");
  v("dropout", c.dropout, 0, 0.95, "Dropout probability");
}

template <class V>
void fields(V& v, training::TrainOptions& o) {
  v("epochs", o.epochs, 1, 1e6, "Passes over the training data");
  v("batch", o.batch, 1, 1e6, "Examples per step");
  v("optimizer", o.optimizer, "Optimiser: adam, adamw or sgd");
  v("rate", o.rate, 1e-12, 1e3, "Peak learning rate");
  v("schedule", o.schedule, "How the rate falls after the warm-up: constant, inverse_sqrt or cosine");
  v("warmup", o.warmup, 0, 1e9, "Steps of linear warm-up");
  v("clip", o.clip, 0, 1e9, "Clip gradients to this norm; 0: no clipping");
  v("weight_decay", o.weight_decay, 0, 1e3, "Weight decay");
  v("average", o.average, 0, 0.999999, "Decay of the running average of the weights, e.g. 0.999; 0: no average");
  v("beta1", o.beta1, 0, 0.999999, "Adam's β1; the momentum of sgd");
  v("beta2", o.beta2, 0, 0.9999999, "Adam's β2");
  v("epsilon", o.epsilon, 1e-30, 1, "Adam's ε");
  v("label_smoothing", o.label_smoothing, 0, 0.9, "Label smoothing");
  v("patience", o.patience, 0, 1e6, "Epochs without a better validation score before training stops; 0: never");
  v("parts", o.parts, 1, 1024, "Parts that a batch is split into, one thread each");
  v("seed", o.seed, 0, 9e15, "Random seed");
}

template <class V>
void fields(V& v, SymbolOptions& o) {
  v("min_count", o.min_count, 1, 1e9, "Symbols seen less often are unknown");
  v("vocabulary", o.vocabulary, 0, 1e8,
    "Most symbols of a side, all others are unknown; 0: no limit, or 8000 for subwords");
  v("subwords", o.subwords, "How --tokens subwords learns them: bpe or unigram");
  v("unknown_dropout", o.unknown_dropout, 0, 1e6,
    "X: train the unknown symbol, read in place of one seen n times with probability X/(X + n); 0: never");
  v("skip_long", o.skip_long, "Leave out and count lines of more than --longest tokens instead of refusing them");
}

// What a generated task makes.
template <class V, class Options>
  requires(std::is_same_v<Options, ReverseOptions> || std::is_same_v<Options, CaseOptions>)
void fields(V& v, Options& o) {
  v("train_size", o.train, 1, 1e7, "Examples to train on");
  v("valid_size", o.valid, 1, 1e6, "Examples to validate on");
  v("test_size", o.test, 1, 1e6, "Examples to test on");
  v("min_length", o.min_length, 1, 10000, "Shortest string");
  v("max_length", o.max_length, 1, 10000, "Longest string");
  v("data_seed", o.seed, 0, 9e15, "Random seed of the examples");
}

}  // namespace rapt::inline v1::tasks
