WITH counts AS (
    SELECT auction, time_bucket(INTERVAL 2 SECONDS, dateTime) - to_seconds(2 * step) AS start_time, count(*) AS num
    FROM bid, range(5) AS steps(step)
    GROUP BY auction, start_time
)
SELECT auction, start_time, num
FROM counts
QUALIFY num = max(num) OVER (PARTITION BY start_time)
