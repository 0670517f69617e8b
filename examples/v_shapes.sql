-- Prices that fall twice or more and then rise, for every symbol.
SELECT symbol, top, bottom, done
FROM trades MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(D.price) AS top, LAST(D.price) AS bottom, LAST(U.ts) AS done
  PATTERN (D D+ U)
  DEFINE D AS price < PREV(price), U AS price > PREV(price)
)
