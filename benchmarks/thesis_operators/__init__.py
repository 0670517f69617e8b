"""The operators of Körber, chapter 4, as functions of arrays, for the figures of the thesis."""
