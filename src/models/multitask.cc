#include "models/multitask.h"

#include <algorithm>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1::models {
namespace {

std::string numbered(const char* part, std::int64_t stage) { return std::string(part) + "." + std::to_string(stage); }

}  // namespace

MultitaskNetwork::Block::Block(layers::Parameters& parameters, const std::string& name,
                               const layers::SharedAttentionShape& shape, std::int64_t inner, double dropout)
    : map_norm(parameters, name + ".map_norm", shape.map_in), attention(parameters, name + ".attention", shape) {
  for (std::int64_t t = 0; t < shape.tasks; ++t) {
    const std::string own = name + "." + std::to_string(t);
    norms.emplace_back(parameters, own + ".norm", shape.width);
    mlps.emplace_back(parameters, own + ".mlp", shape.width, inner, shape.width, Activation::gelu, dropout);
  }
}

template <class T>
std::vector<Tensor<T>> MultitaskNetwork::Block::operator()(layers::Graph<T>& graph, const Tensor<T>& map_from,
                                                           std::span<const Tensor<T>> tasks) const {
  std::vector<Tensor<T>> x = attention(graph, map_norm(graph, map_from), tasks);
  for (std::size_t t = 0; t < x.size(); ++t) x[t] = add(graph.tape, x[t], mlps[t](graph, norms[t](graph, x[t])));
  return x;
}

MultitaskNetwork::MultitaskNetwork(const MultitaskConfig& config, std::int64_t size, std::int64_t classes)
    : config_(config), size_(size), classes_(classes), tasks_(parse_pixel_tasks(config.tasks)) {
  const std::int64_t smallest = config.patch << (config.stages - 1);
  if (size < smallest || size % smallest != 0)
    throw Error("multitask: expected an image size that is a multiple of " + std::to_string(smallest) +
                " with patches of " + std::to_string(config.patch) + " and " + std::to_string(config.stages) +
                " stages, got " + counted(size, "pixel"));
  if (config.reference != "skip") {
    const auto found = std::find_if(tasks_.begin(), tasks_.end(),
                                    [&](PixelTask task) { return info_of(task).name == config.reference; });
    if (found == tasks_.end())
      throw Error("multitask: reference: expected skip or one of the network's tasks, " + config.tasks + ", got '" +
                  config.reference + "'");
    reference_ = found - tasks_.begin();
  }
  const Grid first = grid_of(0);
  embed_ = make_linear("embed", 3 * config.patch * config.patch, config.width, first.cells());
  layers::PositionsShape positions;
  positions.kind = layers::Positions::learned;
  positions.width = config.width;
  positions.max_length = first.cells();
  positions_ = layers::PositionalEncoding(parameters_, "positions", positions);
  for (std::int64_t s = 0; s < config.stages; ++s) {
    EncoderStage& stage = encoder_.emplace_back();
    const std::string name = numbered("encoder", s);
    if (s > 0) {
      stage.norm = layers::LayerNorm(parameters_, name + ".norm", 4 * width_of(s - 1));
      stage.merge = make_linear(name + ".merge", 4 * width_of(s - 1), width_of(s), grid_of(s).cells());
    }
    for (std::int64_t b = 0; b < config.blocks; ++b)
      stage.blocks.push_back(make_block(name + "." + std::to_string(b), s, 1));
  }
  for (std::int64_t s = 0; s < config.stages; ++s) decoder_.push_back(make_decoder(s));
  for (const PixelTask task : tasks_) {
    const std::string name = "head." + std::string(info_of(task).name);
    Head& head = heads_.emplace_back();
    head.norm = layers::LayerNorm(parameters_, name + ".norm", config.width);
    head.out = make_linear(name + ".out", config.width, config.patch * config.patch * channels(task), first.cells());
  }
}

MultitaskNetwork::DecoderStage MultitaskNetwork::make_decoder(std::int64_t s) {
  DecoderStage stage;
  const std::string name = numbered("decoder", s);
  const std::int64_t cells = grid_of(s).cells();
  for (const PixelTask task : tasks_) {
    const std::string own = name + "." + std::string(info_of(task).name);
    stage.skip.push_back(make_linear(own + ".skip", width_of(s), width_of(s), cells));
    if (s + 1 == config_.stages) continue;
    stage.norm.emplace_back(parameters_, own + ".norm", width_of(s + 1));
    stage.up.push_back(make_linear(own + ".up", width_of(s + 1), 4 * width_of(s), cells / 4));
  }
  if (config_.sharing == Sharing::shared) {
    stage.blocks.push_back(make_block(name + ".shared", s, static_cast<std::int64_t>(tasks_.size())));
  } else {
    for (const PixelTask task : tasks_)
      stage.blocks.push_back(make_block(name + "." + std::string(info_of(task).name), s, 1));
  }
  return stage;
}

std::int64_t MultitaskNetwork::channels(PixelTask task) const {
  const std::int64_t fixed = info_of(task).channels;
  return fixed > 0 ? fixed : classes_;
}

Grid MultitaskNetwork::grid_of(std::int64_t stage) const {
  const std::int64_t side = (size_ / config_.patch) >> stage;
  return {side, side};
}

layers::SharedAttentionShape MultitaskNetwork::attention_of(std::int64_t stage, std::int64_t tasks) const {
  layers::SharedAttentionShape shape;
  shape.score = layers::choose_score("scaled_dot");
  shape.map_in = shape.width = width_of(stage);
  shape.tasks = tasks;
  shape.heads = config_.heads << stage;
  shape.grid = grid_of(stage);
  if (config_.window > 0 && config_.window < shape.grid.rows) shape.window = config_.window;
  return shape;
}

MultitaskNetwork::Block MultitaskNetwork::make_block(const std::string& name, std::int64_t stage, std::int64_t tasks) {
  const layers::SharedAttentionShape shape = attention_of(stage, tasks);
  const std::int64_t inner = config_.inner << stage;
  Block block(parameters_, name, shape, inner, config_.dropout);
  const std::int64_t cells = shape.grid.cells();
  multiply_adds_ += block.attention.multiply_adds(cells) + 2 * tasks * cells * shape.width * inner;
  return block;
}

layers::Linear MultitaskNetwork::make_linear(const std::string& name, std::int64_t in, std::int64_t out,
                                             std::int64_t cells) {
  multiply_adds_ += in * out * cells;
  return {parameters_, name, in, out};
}

template <class T>
std::vector<Tensor<T>> MultitaskNetwork::operator()(layers::Graph<T>& graph, const Tensor<T>& pixels) const {
  Tape<T>& tape = graph.tape;
  Tensor<T> x = merge_cells(tape, pixels, {size_, size_}, config_.patch);
  x = positions_(graph, embed_(graph, x));
  std::vector<Tensor<T>> skips;
  for (std::int64_t s = 0; s < config_.stages; ++s) {
    const EncoderStage& stage = encoder_[static_cast<std::size_t>(s)];
    if (s > 0) x = stage.merge(graph, stage.norm(graph, merge_cells(tape, x, grid_of(s - 1), 2)));
    for (const Block& block : stage.blocks) x = block(graph, x, std::span<const Tensor<T>>(&x, 1))[0];
    skips.push_back(x);
  }
  std::vector<Tensor<T>> tasks(tasks_.size());
  for (std::int64_t s = config_.stages - 1; s >= 0; --s) {
    const DecoderStage& stage = decoder_[static_cast<std::size_t>(s)];
    const Tensor<T>& skip = skips[static_cast<std::size_t>(s)];
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const Tensor<T> from_skip = stage.skip[t](graph, skip);
      if (!tasks[t]) {
        tasks[t] = from_skip;
        continue;
      }
      const Tensor<T> up = stage.up[t](graph, stage.norm[t](graph, tasks[t]));
      tasks[t] = add(tape, split_cells(tape, up, grid_of(s + 1), 2), from_skip);
    }
    if (config_.sharing == Sharing::shared) {
      const Tensor<T> map_from = reference_ < 0 ? skip : tasks[static_cast<std::size_t>(reference_)];
      tasks = stage.blocks[0](graph, map_from, std::span<const Tensor<T>>(tasks));
    } else {
      for (std::size_t t = 0; t < tasks.size(); ++t)
        tasks[t] = stage.blocks[t](graph, tasks[t], std::span<const Tensor<T>>(&tasks[t], 1))[0];
    }
  }
  for (std::size_t t = 0; t < tasks.size(); ++t)
    tasks[t] = split_cells(tape, heads_[t].out(graph, heads_[t].norm(graph, tasks[t])), grid_of(0), config_.patch);
  return tasks;
}

template std::vector<Tensor<float>> MultitaskNetwork::operator()(layers::Graph<float>&, const Tensor<float>&) const;
template std::vector<Tensor<double>> MultitaskNetwork::operator()(layers::Graph<double>&, const Tensor<double>&) const;

}  // namespace rapt::inline v1::models
