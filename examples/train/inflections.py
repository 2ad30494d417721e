#!/usr/bin/env python3
"""Lines of made-up words, to compare tokens: three stems with endings TAB the same stems in reverse order with the endings of
another language. A few stems are frequent, most are rare, so that held-out lines have words that training never saw.

    examples/train/inflections.py > inflections.tsv
"""

import random

LINES = 6000
STEMS = 400
CONSONANTS = "bdfgklmnprstvz"
VOWELS = "aeiou"
ENDINGS = {"s": "en", "ing": "end", "ed": "te", "er": "erin", "ly": "lich", "ness": "heit"}

draw = random.Random(5)


def stem():
    syllables = draw.choice([2, 3])
    return "".join(draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(syllables)) + draw.choice(CONSONANTS)


stems = sorted({stem() for _ in range(STEMS)})
draw.shuffle(stems)


def word():
    frequent = draw.random() < 0.7
    place = min(int(draw.paretovariate(0.7)) - 1, len(stems) - 1) if frequent else draw.randrange(len(stems))
    ending = draw.choice(list(ENDINGS))
    return stems[place] + ending, stems[place] + ENDINGS[ending]


for _ in range(LINES):
    words = [word() for _ in range(3)]
    print(" ".join(source for source, _ in words), " ".join(target for _, target in reversed(words)), sep="\t")
