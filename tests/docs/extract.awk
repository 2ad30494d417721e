# awk -v folder=DIR -v language=cpp|c -f extract.awk PAGE.md: writes the page's code blocks as sources into the folder and
# prints their names. A block that starts with # is a file, unless statements follow what it includes; one that starts with
# struct is a mechanism; all others are statements, each block a function, and run in order by a program with the names of
# prelude.h.

function write_statements(    n) {
  name = folder "/" stem "." extension
  printf "%s#include \"prelude.h\"\n\n", includes > name
  if (mechanisms > 0) printf "#include \"%s_mechanisms.h\"\nusing namespace rapt::mechanisms;\n", stem > name
  for (n = 1; n <= statements; ++n) printf "static void block_%d(void) {\n%s}\n\n", n, body[n] > name
  printf "int main(void) {\n" > name
  for (n = 1; n <= statements; ++n) printf "  block_%d();\n", n > name
  printf "  return 0;\n}\n" > name
  print name
}

function finish_block() {
  if (text ~ /^#include/ && text !~ /int main/) {
    while (text ~ /^(#include[^\n]*)?\n/) {
      place = index(text, "\n")
      includes = includes substr(text, 1, place)
      text = substr(text, place + 1)
      ++first
    }
  }
  if (text ~ /^#/) {
    # A header stands beside a source that includes it.
    name = folder "/" stem "_file_" (++files)
    header = text ~ /^#pragma once/
    printf "#line %d \"%s.md\"\n%s", first, stem, text > (name (header ? ".h" : "." extension))
    if (header) printf "#include \"%s_file_%d.h\"\n", stem, files > (name "." extension)
    print name "." extension
  } else if (text ~ /^struct /) {
    split(text, words, " ")
    name = folder "/" stem "_mechanisms.h"
    if (++mechanisms == 1) printf "#include \"rapt/tile_program.h\"\n" > name
    # Instantiated, or nothing of a template would be checked.
    printf "namespace rapt::mechanisms {\n#line %d \"%s.md\"\n%s}\n", first, stem, text > name
    printf "template rapt::MechanismDefinition rapt::make_definition<rapt::mechanisms::%s>(std::string_view);\n", words[2] > name
  } else {
    body[++statements] = sprintf("#line %d \"%s.md\"\n", first, stem) text
  }
}

FNR == 1 {
  stem = FILENAME
  sub(/.*\//, "", stem)
  sub(/\.md$/, "", stem)
  extension = language == "c" ? "c" : "cc"
}

inside && /^```$/ {
  inside = 0
  finish_block()
  next
}
inside { text = text $0 "\n" }
$0 == "```" language {
  inside = 1
  text = ""
  first = FNR + 1
}

END {
  if (inside) exit 1
  write_statements()
}
