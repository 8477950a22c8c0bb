CREATE MATERIALIZED VIEW fact_market AS
SELECT m.symbol, s.sector, m.day, m.close, m.high - m.low AS span, m.volume
FROM market AS m JOIN dim_securities s USING (symbol);

CREATE STREAMING TABLE fact_cash USING parquet AS
SELECT account_id, CAST(at AS DATE) AS day, amount FROM STREAM cash;

CREATE MATERIALIZED VIEW market_extremes AS
SELECT symbol, sector, max(close) AS highest, min(close) AS lowest, max_by(close, day) AS latest
FROM fact_market GROUP BY symbol, sector;
