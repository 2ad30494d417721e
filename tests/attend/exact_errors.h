#pragma once

#include <map>
#include <string>

#include "support/checks.h"

// How far results are from f64, beside how far the naive formula of the same type is, over several seeds of one problem:
// one number may be right by luck, in either; several are not.
namespace exact {

// How errors of several seeds are added: as they are, or each in units of its own numbers, so that no seed whose numbers are
// a thousand times those of the others decides alone.
enum class SeedWeight { absolute, relative };

class Errors {
 public:
  explicit Errors(SeedWeight weight = SeedWeight::absolute) : weight_(weight) {}

  // `sizes`: what the numbers of `want` would be if nothing cancelled.
  void add(const std::string& name, rapt::Dtype dtype, const oracle::Array& got, const oracle::Array& want,
           const oracle::Array& naive, const oracle::Array& sizes);
  // At most twice as far as the naive formula.
  void expect_within(const std::string& also = "") const;

 private:
  struct Sums {
    double ours = 0, naive = 0;  // of the largest errors
    double floor = 0;            // of half steps of what is stored, and of a few roundings of the largest number
  };
  std::map<std::string, Sums> sums_;
  SeedWeight weight_;
};

// Which arithmetic a naive formula of this type has, where pair products are used or not.
oracle::Precision naive_precision(rapt::Dtype dtype, bool pairs);

// Outputs and gradients of one problem, run and compared.
void add_outputs(Errors& errors, const support::Case& c, bool pairs);
void add_gradients(Errors& errors, const support::Case& c, bool pairs, bool saved);

}  // namespace exact
