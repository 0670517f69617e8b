"""Rules of other languages in, rules of Cepheid out, with a report of what became of each."""
