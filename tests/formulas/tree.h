#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

// Formulas as trees made by a test: written as text for the library, and evaluated in double here, without shared code.
namespace trees {

// An array of a parameter: numbers, or numbers of each head.
struct Numbers {
  std::vector<std::int64_t> sizes;  // without the heads
  bool per_head = false;
  std::vector<double> data;

  std::int64_t size() const;
  double at(std::int64_t head, std::int64_t row, std::int64_t col) const;
};

// What a formula may read.
struct Pair {
  double raw = 0, scale = 1;
  std::int64_t i = 0, j = 0, head = 0, batch = 0, queries = 0, keys = 0, row = 0, col = 0;
  double q = 0, k = 0, w = 0;
  const std::map<std::string, Numbers>* parameters = nullptr;
};

struct Tree {
  std::string name;   // of an operation, a function, a parameter or a leaf
  double number = 0;  // of a leaf without a name
  std::vector<Tree> children;
};

std::string text(const Tree& tree);
double evaluate(const Tree& tree, const Pair& pair);

// The same with how far arithmetic that rounds by `eps` may be from it. A step (a comparison, a place in a table) that such
// an error may take to its other side is unsure.
struct Bounded {
  double value = 0, error = 0;
  bool unsure = false;
};
Bounded bounded(const Tree& tree, const Pair& pair, double eps, double raw_error);

// Draws trees. Their numbers stay within some units, and no division or root meets its pole.
class Maker {
 public:
  Maker(unsigned seed, std::int64_t table, std::int64_t rows, std::int64_t cols)
      : random_(seed), table_(table), rows_(rows), cols_(cols) {}

  Tree score(int depth);    // of raw, positions and the parameters a, b, t, u
  Tree pair(int depth);     // of q, k, w
  Tree visible(int depth);  // of positions

 private:
  enum class Of { score, pair, positions };
  Tree number(Of of, int depth);
  Tree leaf(Of of);
  Tree condition(Of of, int depth);
  Tree place(std::int64_t size);
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  double real(double low, double high);

  std::mt19937 random_;
  std::int64_t table_, rows_, cols_;
};

}  // namespace trees
