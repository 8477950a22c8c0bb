SELECT bidder, count(*) AS bids, min(dateTime) AS start_time, max(dateTime) + INTERVAL 10 SECONDS AS end_time
FROM (
    SELECT bidder, dateTime, count(*) FILTER (WHERE begins) OVER (
        PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING
    ) AS session
    FROM (
        SELECT bidder, dateTime,
            dateTime >= lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) + INTERVAL 10 SECONDS AS begins
        FROM bid
    )
)
GROUP BY bidder, session
