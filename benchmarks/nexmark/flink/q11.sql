SELECT bidder, count(*) AS bids, window_start AS start_time, window_end AS end_time
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
