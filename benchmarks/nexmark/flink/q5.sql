SELECT c.auction, c.start_time, c.num
FROM (
    SELECT auction, window_start AS start_time, window_end AS end_time, count(*) AS num
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
) c JOIN (
    SELECT start_time, end_time, max(num) AS most
    FROM (
        SELECT window_start AS start_time, window_end AS end_time, count(*) AS num
        FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
        GROUP BY auction, window_start, window_end
    )
    GROUP BY start_time, end_time
) m ON c.start_time = m.start_time AND c.end_time = m.end_time AND c.num >= m.most
