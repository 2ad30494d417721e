#pragma once

#include <map>
#include <string>

#include "support/checks.h"

// Distances of results from f64, beside those of the naive formula in the same type, over several seeds of one problem:
// one number may be right by luck, several are not.
namespace exact {

// How seeds are added up: as they are, or each relative to its own numbers, so that no seed with numbers a thousand
// times larger decides alone.
enum class SeedWeight { absolute, relative };

class Errors {
 public:
  explicit Errors(SeedWeight weight = SeedWeight::absolute) : weight_(weight) {}

  // `sizes`: how large the numbers of `want` would be if nothing cancelled.
  void add(const std::string& name, rapt::Dtype dtype, const oracle::Array& got, const oracle::Array& want,
           const oracle::Array& naive, const oracle::Array& sizes);
  // At most twice the naive formula's distance.
  void expect_within(const std::string& also = "") const;

 private:
  struct Sums {
    double ours = 0, naive = 0;  // of the largest errors
    double floor = 0;            // of half steps of what is stored, and of a few roundings of the largest number
  };
  std::map<std::string, Sums> sums_;
  SeedWeight weight_;
};

// The arithmetic of a naive formula of this type, with pair products or without.
oracle::Precision naive_precision(rapt::Dtype dtype, bool pairs);

// Outputs and gradients of one problem, run and compared.
void add_outputs(Errors& errors, const support::Case& c, bool pairs);
void add_gradients(Errors& errors, const support::Case& c, bool pairs, bool saved);

}  // namespace exact
